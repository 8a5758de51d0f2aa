"""Activation checkpointing: blocks whose activations are thrown away and computed again in the backward pass.

``torch.utils.checkpoint`` inside a network calls its modules again when the call of the stream has long ended, and
finds the source's weights in them: the target's gradients would be wrong without a word. So a network that does this
is refused (:class:`CheckpointWatch`), and the blocks are checkpointed from here, with the weights that they had in
the stream (:func:`checkpointed_blocks`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import checkpoint as torch_checkpoint

from residapt.errors import ModelError

Places = list[tuple[dict[str, Any], str]]


def find_blocks(model: nn.Module) -> list[str]:
    """The elements of the outermost sequences of the network that have parameters: its blocks or stages."""
    found: list[str] = []

    def visit(module: nn.Module, prefix: str) -> None:
        for name, child in module.named_children():
            path = f"{prefix}{name}"
            if isinstance(module, (nn.Sequential, nn.ModuleList)) and next(child.parameters(), None) is not None:
                found.append(path)
            else:
                visit(child, f"{path}.")

    visit(model, "")
    return found


@contextmanager
def checkpointed_blocks(model: nn.Module, names: Sequence[str]) -> Iterator[None]:
    """Within this context, blocks in training keep only their inputs; the modules themselves stay as they are."""
    blocks = [model.get_submodule(name) for name in names]
    for block in blocks:
        block.forward = _Recomputed(block)
    try:
        yield
    finally:
        for block in blocks:
            del block.forward


class _Recomputed:
    """The forward pass of one block, to be repeated with the tensors that the block has now."""

    def __init__(self, block: nn.Module) -> None:
        self.block, self.original = block, block.forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not (self.block.training and torch.is_grad_enabled()):
            return self.original(*args, **kwargs)
        parameters, buffers = _places(self.block, "_parameters"), _places(self.block, "_buffers")
        kept = [place[name] for place, name in (*parameters, *buffers)]
        calls = 0

        def run(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 1:
                return self.original(*args, **kwargs)
            # Batch norm would count the batch again: it gets copies of its statistics to write to.
            tensors = [*kept[: len(parameters)], *(_copy(buffer) for buffer in kept[len(parameters) :])]
            with _swapped([*parameters, *buffers], tensors):
                return self.original(*args, **kwargs)

        return torch_checkpoint.checkpoint(run, *args, use_reentrant=False, **kwargs)


def _places(block: nn.Module, kind: str) -> Places:
    """Where the block's tensors are: the modules' own dictionaries, in which a stream puts its weights."""
    return [(table, name) for module in block.modules() for table in [getattr(module, kind)] for name in table]


def _copy(buffer: Tensor | None) -> Tensor | None:
    return None if buffer is None else buffer.clone()


@contextmanager
def _swapped(places: Places, tensors: list[Any]) -> Iterator[None]:
    before = [table[name] for table, name in places]
    for (table, name), tensor in zip(places, tensors, strict=True):
        table[name] = tensor
    try:
        yield
    finally:
        for (table, name), tensor in zip(places, before, strict=True):
            table[name] = tensor


def refuse_own_checkpointing(model: nn.Module) -> None:
    """Refuse a network whose own switch for this is on."""
    for name, module in model.named_modules():
        for switch in ("gradient_checkpointing", "grad_checkpointing"):
            if getattr(module, switch, False) is True:
                raise ModelError(
                    f"'{name or type(model).__name__}' has {switch} on, which recomputes layers with the source's "
                    "weights. Turn it off, and set train.checkpointing = true instead."
                )


class CheckpointWatch:
    """Checks during one pass whether the network calls ``torch.utils.checkpoint`` around the given modules."""

    def __init__(self, modules: Mapping[str, nn.Module]) -> None:
        self.modules = modules

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Refuse the network within this context if it does."""
        handles = [module.register_forward_pre_hook(_refuse(name)) for name, module in self.modules.items()]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def _refuse(name: str) -> Callable[..., None]:
    def check(_module: nn.Module, _inputs: Any) -> None:
        frame = sys._getframe()
        while frame.f_back is not None:
            frame = frame.f_back
            if frame.f_code.co_filename == torch_checkpoint.__file__:
                raise ModelError(
                    f"the network calls torch.utils.checkpoint around '{name}', which would compute the target stream "
                    "again with the source's weights. Turn it off there, and set train.checkpointing = true instead."
                )

    return check
