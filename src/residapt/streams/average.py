r"""Averaged target weights: a moving average of :math:`\Theta^t`, which keeps its shape when ranks fall.

.. math:: \bar\Theta \leftarrow d\,\bar\Theta + (1 - d)\,\Theta^t

The average of low-rank residuals is not of low rank, so it belongs to whole weights and to no adapter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from residapt.streams.two_stream import TwoStream


class TargetAverage(nn.Module):
    """The average of every tensor of the plain target network, under its own name."""

    updates: Tensor

    def __init__(self, two: TwoStream) -> None:
        super().__init__()
        present = _whole_target(two)
        self._names = {f"mean/{name.replace('.', '/')}": name for name in present}
        for key, name in self._names.items():
            self.register_buffer(key, present[name].detach().clone())
        device = next(iter(present.values())).device
        self.register_buffer("updates", torch.zeros((), dtype=torch.long, device=device))

    @property
    def begun(self) -> bool:
        """Whether there is anything to use."""
        return bool(self.updates > 0)

    def named(self) -> dict[str, Tensor]:
        """The averages under the names that they have in the network."""
        return {name: self.get_buffer(key) for key, name in self._names.items()}

    @torch.no_grad()
    def update(self, two: TwoStream, decay: float) -> None:
        """Take in the present target weights; the first ones are taken as they are."""
        keep = decay if self.begun else 0.0
        present = _whole_target(two)
        for name, mean in self.named().items():
            new = present[name].detach().to(mean)
            if mean.is_floating_point():
                mean.lerp_(new, 1.0 - keep)
            else:  # counters of batch norm
                mean.copy_(new)
        self.updates += 1


@torch.no_grad()
def _whole_target(two: TwoStream) -> dict[str, Tensor]:
    """Every parameter and buffer of the network as the target stream has it now."""
    own: dict[str, Tensor] = {**dict(two.model.named_parameters()), **dict(two.model.named_buffers())}
    return {**own, **two.live_target_state()}
