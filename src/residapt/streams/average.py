r"""Averaged weights: a moving average of everything that both streams compute with.

.. math:: \bar\theta \leftarrow d\,\bar\theta + (1 - d)\,\theta \qquad \theta \in \{\Theta^s, A_1, A_2, B_1, B_2, D\}

The factors are averaged, not the weights that they give: an average of low-rank residuals has no low rank, while
averaged factors are a transform like any other, so that the result still has a small adapter. When ranks fall, the same
rows and columns go from the average.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from residapt.streams.two_stream import TwoStream


class StreamAverage(nn.Module):
    """The average as a two-stream model of its own, which nothing trains."""

    updates: Tensor
    mean: TwoStream

    def __init__(self, streams: TwoStream) -> None:
        super().__init__()
        self.mean = copy.deepcopy(streams).requires_grad_(False)
        device = next(streams.parameters()).device
        self.register_buffer("updates", torch.zeros((), dtype=torch.long, device=device))

    @property
    def begun(self) -> bool:
        """Whether there is anything to use."""
        return bool(self.updates > 0)

    @torch.no_grad()
    def update(self, streams: TwoStream, decay: float) -> None:
        """Take in the present weights; the first ones are taken as they are."""
        # The factor is a tensor, so that nothing waits for the device to know whether the average has begun.
        taken = torch.where(self.updates > 0, 1.0 - decay, 1.0)
        present = _tensors(streams)
        for name, mean in _tensors(self.mean).items():
            new = present[name].to(mean)
            if mean.is_floating_point():
                mean.lerp_(new, taken.to(mean))
            else:  # counters of batch norm
                mean.copy_(new)
        self.updates += 1


def _tensors(streams: TwoStream) -> dict[str, Tensor]:
    """Parameters and buffers, each once: a tied one must not be averaged twice."""
    return {**dict(streams.named_parameters()), **dict(streams.named_buffers())}
