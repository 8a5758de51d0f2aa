"""Batch norm in two domains: which running statistics a stream uses and updates.

Batch norm is where domains leak into each other, so the policy is explicit. ``per-domain``: each stream has running
statistics of its own, scale and shift are shared. ``shared``: both streams update one set. ``frozen``: the
statistics of the source network are used as constants in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from residapt.transform.names import is_inside


def batch_norms(model: nn.Module) -> Iterator[tuple[str, _BatchNorm]]:
    """The batch-norm modules that keep running statistics."""
    for name, module in model.named_modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            yield name, module


def couples_samples(model: nn.Module, policy: str, frozen: Sequence[str] = ()) -> bool:
    """Whether a sample's output depends on the others of its batch, so that the domains need a pass each."""
    norms = [m for name, m in model.named_modules() if isinstance(m, _BatchNorm) and not is_inside(name, frozen)]
    if any(not m.track_running_stats for m in model.modules() if isinstance(m, _BatchNorm)):
        return True
    return policy != "frozen" and bool(norms)


class TargetStatistics(nn.Module):
    """The target stream's copy of every batch-norm buffer; empty unless the policy is ``per-domain``."""

    def __init__(self, model: nn.Module, policy: str, frozen: Sequence[str] = ()) -> None:
        super().__init__()
        self._names: dict[str, str] = {}
        if policy != "per-domain":
            return
        for path, module in batch_norms(model):
            if is_inside(path, frozen):  # one set of statistics serves both streams for good
                continue
            for name, buffer in module.named_buffers(recurse=False):
                full = f"{path}.{name}" if path else name
                key = full.replace(".", "/")
                self._names[key] = full
                self.register_buffer(key, buffer.detach().clone())

    def named(self) -> dict[str, Tensor]:
        """Buffers under the names they have in the model; batch norm updates them in place."""
        return {full: self.get_buffer(key) for key, full in self._names.items()}


def freeze_statistics(model: nn.Module) -> None:
    """Keep batch norm in evaluation mode, so that its statistics stay as they are."""
    for _, module in batch_norms(model):
        module.eval()
