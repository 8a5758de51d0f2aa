"""What stands where stages have been cut off: modules that give empty tensors of the right shape."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from residapt.errors import ModelError

TRACED_IMAGES = 3
"""Images in the batch that is traced: an odd number, by which few other sizes can be divided."""


@dataclass(frozen=True)
class Shape:
    """A tensor of a traced output, described for one image; ``rows`` is 0 where the batch does not count."""

    rows: int
    shape: tuple[int, ...]
    dtype: torch.dtype

    def empty(self, given: Tensor, *, dense: bool) -> Tensor:
        """A tensor of zeros that takes no memory, unless it has to be written to."""
        shape = (self.rows * given.shape[0], *self.shape[1:]) if self.rows else self.shape
        dtype = given.dtype if self.dtype.is_floating_point else self.dtype
        if dense:
            return torch.zeros(shape, dtype=dtype, device=given.device)
        return torch.zeros((), dtype=dtype, device=given.device).expand(shape)


def template_of(output: Any) -> Any:
    """The output with a description in place of each tensor."""

    def describe(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        rows = leaf.shape[0] // TRACED_IMAGES if leaf.ndim and leaf.shape[0] % TRACED_IMAGES == 0 else 0
        return Shape(rows, tuple(leaf.shape), leaf.dtype)

    return pytree.tree_map(describe, output)


class Feed:
    """Before a call of the rest: take what it was given, and let its code begin with empty images.

    After the call: forget it.
    """

    def __init__(self, images: Shape, *, dense: bool) -> None:
        self.images, self.dense = images, dense
        self.copies = False
        """Whether the rest writes into what it is given, so that it needs a copy."""
        self.given: Tensor | None = None
        self.calls: dict[int, int] = {}

    def __call__(self, _module: nn.Module, inputs: Any, *output: Any) -> Any:
        """The hook, of both kinds."""
        if output:
            self.given = None
            return None
        self.given, self.calls = inputs[0], {}
        return (self.images.empty(inputs[0], dense=self.dense), *inputs[1:])

    def fill(self, stage: Skipped) -> Any:
        """What a stage would give, with empty tensors; what the rest was called with at the end of the last stage."""
        if self.given is None:
            raise ModelError(
                "a stage that was cut off is called outside of a call of the network, by activation checkpointing "
                "for instance. Turn that off, or cut the network elsewhere."
            )
        given = self.given.clone() if stage.last and self.copies else self.given
        number = self.calls.get(id(stage), 0)
        self.calls[id(stage)] = number + 1
        template = stage.templates[min(number, len(stage.templates) - 1)]

        def tensor(leaf: Any) -> Any:
            if not isinstance(leaf, Shape):
                return leaf
            return given if stage.last else leaf.empty(given, dense=self.dense)

        return pytree.tree_map(tensor, template)


class Skipped(nn.Module):
    """Stands where a frozen stage was, without its weights."""

    def __init__(self, feed: Feed, templates: list[Any], stage: nn.Module, *, last: bool) -> None:
        super().__init__()
        self.feed, self.templates, self.last = feed, templates, last
        # Networks look into their stages, for a stride or a type; in a tuple it is no module of this one.
        self.form = (copy.deepcopy(stage).to("meta"),)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if "form" not in self.__dict__:  # while it is copied
                raise
            return getattr(self.__dict__["form"][0], name)

    def forward(self, *_args: Any, **_options: Any) -> Any:
        """The same form as the stage's output."""
        return self.feed.fill(self)
