"""What a loss reads: a module's output, its input, or the last features before the classifier."""

from __future__ import annotations

import difflib
from typing import Any

import torch
from torch import Tensor, nn

from residapt.errors import ModelError
from residapt.methods.registry import probe
from residapt.streams import TwoStream

PENULTIMATE = "penultimate"


def resolve_layer(two: TwoStream, name: str | None, example: Tensor) -> str | None:
    """``name`` as :meth:`TwoStream.outputs` knows it; ``penultimate`` becomes the classifier's input."""
    if name is None:
        return None
    if name == PENULTIMATE:
        return classifier_input(two, example)
    modules = dict(two.model.named_modules())
    if name.removesuffix(":input") not in modules:
        near = difflib.get_close_matches(name, modules, n=3, cutoff=0.3) or list(modules)[1:4]
        raise ModelError(
            f"layer '{name}' is not a module of {type(two.model).__name__}. Did you mean {', '.join(near)}? "
            f"'{PENULTIMATE}' names the input of the classifier."
        )
    return name


@torch.no_grad()
def classifier_input(two: TwoStream, example: Tensor) -> str:
    """The input of the linear layer that is called last, which is the one that gives the logits.

    Found by the order of calls in one pass, because the order of registration is only a custom.
    """
    called: list[str] = []
    handles = []
    for name, module in two.model.named_modules():
        if isinstance(module, nn.Linear) or (isinstance(module, nn.Conv2d) and module.kernel_size == (1, 1)):

            def hook(_module: nn.Module, _inputs: Any, _output: Any, name: str = name) -> None:
                called.append(name)

            handles.append(module.register_forward_hook(hook))
    try:
        probe(two, example)
    finally:
        for handle in handles:
            handle.remove()
    if not called:
        raise ModelError(
            f"{type(two.model).__name__} calls no Linear layer, so its last features are unknown. "
            "Name a layer with discrepancy.layer (and dsn.layer for DSN)."
        )
    return f"{called[-1]}:input"
