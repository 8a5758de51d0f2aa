"""What a pass gives: logits, features and inner layers, read by hooks for the time of the pass."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from residapt.errors import ModelError


@dataclass(frozen=True)
class Outputs:
    """What one pass gives: logits, what the domain classifier reads, and the requested inner layers."""

    logits: Tensor
    features: Tensor
    inner: dict[str, Tensor] = field(default_factory=dict)

    def split(self, size: int) -> tuple[Outputs, Outputs]:
        """The first ``size`` samples and the others."""
        pairs = {name: (value[:size], value[size:]) for name, value in self.inner.items()}
        return (
            Outputs(self.logits[:size], self.features[:size], {name: pair[0] for name, pair in pairs.items()}),
            Outputs(self.logits[size:], self.features[size:], {name: pair[1] for name, pair in pairs.items()}),
        )


@contextmanager
def catch_outputs(model: nn.Module, names: tuple[str, ...]) -> Iterator[dict[str, Tensor]]:
    """Collect the outputs of named modules during one pass; ``name:input`` asks for what the module is given."""
    caught: dict[str, Tensor] = {}
    handles = []
    for name in dict.fromkeys(names):

        def hook(_module: nn.Module, inputs: Any, output: Any, name: str = name) -> None:
            value = inputs if name.endswith(":input") else output
            caught[name] = value[0] if isinstance(value, tuple) else value

        handles.append(_submodule(model, name.removesuffix(":input")).register_forward_hook(hook))
    try:
        yield caught
    finally:
        for handle in handles:
            handle.remove()
    for name in names:
        if not isinstance(caught.get(name), Tensor):
            got = f"gave {type(caught[name]).__name__}, not a tensor" if name in caught else "was not called"
            raise ModelError(f"'{name}' of {type(model).__name__} {got}, so it cannot be read; name another layer.")


def _submodule(model: nn.Module, name: str) -> nn.Module:
    try:
        return model.get_submodule(name)
    except AttributeError:
        modules = [child for child, _ in model.named_modules() if child]
        near = difflib.get_close_matches(name, modules, n=3, cutoff=0.3) or modules[:3]
        raise ModelError(
            f"'{name}' is not a module of {type(model).__name__}. Did you mean {', '.join(near)}?"
        ) from None


def logits_of(result: Any, model: nn.Module) -> Tensor:
    """The logits in whatever a network returned."""
    logits = getattr(result, "logits", result)
    if not isinstance(logits, Tensor) or logits.ndim < 2:
        got = f"a tensor of shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else type(result).__name__
        raise ModelError(
            f"{type(model).__name__} returned {got}; residapt needs logits of shape (batch, classes), "
            "or an object with such a .logits."
        )
    return logits
