"""Dense target weights that the backward pass forms again instead of keeping them.

A layer keeps its weight for the gradient of its input. For the source that is the parameter itself; for the target it
would be another C x N matrix, as many numbers in all as the network has. But the factors are kept anyway, and
W + L Rᵀ costs C N k multiplications, next to nothing beside a convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from residapt.transform import LayerMatrix, Residual

OF_THE_WRAPPER = {Tensor.shape.__get__, Tensor.dtype.__get__, Tensor.device.__get__, Tensor.size, Tensor.dim}  # type: ignore[attr-defined]
"""What a tensor without storage can answer by itself."""
SMALLEST = 2**15
"""Smaller weights are kept: forming them again would save little and cost a call."""


@dataclass(frozen=True, eq=False)
class WeightRecipe:
    """How a target weight is made from the layer's source weight."""

    layer: LayerMatrix
    stored: Tensor
    """The layer's parameter."""
    residual: Residual

    def dense(self) -> Tensor:
        """The target weight in the shape of the parameter."""
        matrix = self.residual.add_to_weight(self.layer.weight_matrix(self.stored))
        return self.layer.weight_from(matrix, self.stored)

    def versions(self) -> tuple[int, ...]:
        """Changes with every change in place of what the weight is made of."""
        return tuple(tensor._version for tensor in (self.stored, *self.residual.factors()))


class Rebuilt(torch.autograd.graph.saved_tensors_hooks):
    """Operations in this context do not keep ``weight``, which ``recipe`` has made: it is made again when needed."""

    def __init__(self, weight: Tensor, recipe: WeightRecipe) -> None:
        super().__init__(self._pack, self._unpack)
        self._weight: Tensor | None = weight
        self._recipe, self._versions = recipe, recipe.versions()

    def __exit__(self, *args: object) -> None:
        super().__exit__(*args)
        self._weight = None

    def _pack(self, tensor: Tensor) -> Tensor | None:
        weight = self._weight
        assert weight is not None  # packing happens within the context
        same = tensor.data_ptr() == weight.data_ptr() and tensor.shape == weight.shape
        return None if same and tensor.stride() == weight.stride() else tensor

    @torch.no_grad()
    def _unpack(self, kept: Tensor | None) -> Tensor:
        if kept is not None:
            return kept
        if self._versions != self._recipe.versions():
            raise RuntimeError(
                f"the weight of layer '{self._recipe.layer.name}' or its transform was changed in place between the "
                "forward and the backward pass."
            )
        return self._recipe.dense()


def rebuilt(weight: Tensor, recipe: WeightRecipe) -> AbstractContextManager[object]:
    """The context for operations with ``weight``: it is made again when needed, if it is large enough for that."""
    return Rebuilt(weight, recipe) if weight.numel() >= SMALLEST else nullcontext()


class DeferredWeight(Tensor):
    """A target weight that is formed where it is used, and not before.

    Autograd goes backwards in the order of the forward pass: a weight that is formed right before its convolution hands
    on its gradient right after it, instead of keeping it until all others are done.
    """

    recipe: WeightRecipe

    @staticmethod
    def __new__(cls, recipe: WeightRecipe) -> DeferredWeight:
        """Stand in for the weight; there is no storage behind it."""
        like = recipe.stored
        made: DeferredWeight = Tensor._make_wrapper_subclass(
            cls, like.shape, dtype=like.dtype, device=like.device, requires_grad=False
        )
        made.recipe = recipe
        return made

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Questions about the shape as they are, everything else on the dense tensor."""
        kwargs = kwargs or {}
        if func in OF_THE_WRAPPER:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        formed: list[tuple[Tensor, WeightRecipe]] = []

        def form(weight: DeferredWeight) -> Tensor:
            formed.append((weight.recipe.dense(), weight.recipe))
            return formed[-1][0]

        args, kwargs = tree_map_only(cls, form, (args, kwargs))
        with rebuilt(*formed[0]) if len(formed) == 1 else nullcontext():
            return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        """Refused: below autograd a dense weight would be cut off from its factors."""
        raise TypeError(f"{func} cannot work on a weight that is not formed yet.")
