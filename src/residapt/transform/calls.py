"""The order in which a network calls its modules: that of registration is only a custom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from residapt.transform.modes import evaluation_mode


@dataclass(frozen=True)
class Calls:
    """When each module was called in one pass; modules that were not called are missing."""

    first: dict[str, int]
    """When a module was entered for the first time."""
    last: dict[str, int]
    """When it was left for the last time, on the same clock."""

    def feeds(self, layer: str, until: str) -> bool | None:
        """Whether ``layer`` is called before ``until`` has ended; None where the pass does not say.

        A layer whose parameters are used without a call of it (the projections of attention) counts as called with the
        module around it, unless ``until`` lies in that module as well.
        """
        caller = layer
        while caller and caller not in self.first:
            caller = caller.rpartition(".")[0]
        if until not in self.last or not caller or (caller != layer and until.startswith(f"{caller}.")):
            return None
        return self.first[caller] < self.last[until]


@torch.no_grad()
def record_calls(model: nn.Module, example: Tensor) -> Calls:
    """One evaluation pass of two samples; nothing in the network changes."""
    calls, clock, handles = Calls({}, {}), iter(range(2**62)), []

    def enter(name: str) -> Callable[[nn.Module, Any], None]:
        return lambda _module, _inputs: calls.first.update({name: calls.first.get(name, next(clock))})

    def leave(name: str) -> Callable[[nn.Module, Any, Any], None]:
        return lambda _module, _inputs, _output: calls.last.update({name: next(clock)})

    for name, module in model.named_modules():
        handles += [module.register_forward_pre_hook(enter(name)), module.register_forward_hook(leave(name))]
    try:
        with evaluation_mode(model), torch.random.fork_rng(devices=[]):
            model(example[:2])
    finally:
        for handle in handles:
            handle.remove()
    return calls
