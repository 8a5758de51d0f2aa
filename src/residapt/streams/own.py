"""Parameters that the target stream has for itself, beside the network's or instead of a transform."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn

from residapt.transform.names import is_inside, matching


class TargetParameters(nn.Module):
    """The target stream's copies of some of the network's parameters."""

    def __init__(self, model: nn.Module, names: Iterable[str] = ()) -> None:
        super().__init__()
        self._names = {name.replace(".", "/"): name for name in names}
        for key, name in self._names.items():
            self.register_parameter(key, nn.Parameter(model.get_parameter(name).detach().clone()))

    def named(self) -> dict[str, nn.Parameter]:
        """Parameters under the names they have in the model."""
        return {name: self.get_parameter(key) for key, name in self._names.items()}

    @torch.no_grad()
    def copy_from(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over values by the names they have in the model."""
        for name, own in self.named().items():
            own.copy_(tensors[name])


def own_names(model: nn.Module, patterns: Sequence[str], frozen: Sequence[str] = ()) -> list[str]:
    """Names of the parameters that the patterns name, each once; frozen modules keep theirs."""
    names = [name for name, _ in model.named_parameters()]
    found = matching(patterns, names, setting="transform.own", what="parameters")
    return [name for name in names if name in found and not is_inside(name.rpartition(".")[0], frozen)]
