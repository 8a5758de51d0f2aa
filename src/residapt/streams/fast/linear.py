r"""Linear layers of the target stream without a dense target weight, and without an extra pass over the source's.

Two equal forms: ``dense``, :math:`y = (\Theta + B_1 S B_2^\top)x`, forms a C x N matrix; ``factored``,
:math:`y = \Theta x + B_1 (S (B_2^\top x))`, works on the rows of x and is cheaper while these are fewer than about
:math:`CN/(C+N)`; with a frozen source it also saves the weight's full gradient, and is cheaper for most layers. In the
factored form the only large products are those with :math:`\Theta` itself, and the transform needs one too,
:math:`\Theta A_2`. So the columns of :math:`A_2` join the batch as r more rows: one product in the forward pass and
two in the backward pass serve the layer, the other stream (see :mod:`.pair`) and the transform, and
the gradient of :math:`\Theta` is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from residapt.streams.fast.rebuilt import DeferredWeight, WeightRecipe, rebuilt
from residapt.transform.precision import is_autocast


class FactoredWeight(DeferredWeight):
    """A target weight that is multiplied as factors by ``linear``, and becomes a dense tensor for anything else."""

    def __init__(self, recipe: WeightRecipe) -> None:
        self.source, self.residual = recipe.stored, recipe.residual

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """``linear`` by factors, everything else as for any weight that is not formed yet."""
        if func is functional.linear:
            x, weight, bias = linear_arguments(*args, **(kwargs or {}))
            if isinstance(weight, cls):
                return weight.linear((x,), (bias,))[0]
        return super().__torch_function__(func, types, args, kwargs)

    def linear(self, inputs: Sequence[Tensor], biases: Sequence[Tensor | None]) -> list[Tensor]:
        """Outputs for the target's input, the last; inputs before it belong to the source stream."""
        outputs, columns = self.source.shape
        rows = [x.reshape(-1, columns) for x in inputs]
        if self._dense_is_cheaper(len(rows[-1])):
            first = [functional.linear(x, self.source, b) for x, b in zip(inputs[:-1], biases, strict=False)]
            with rebuilt(dense := self.recipe.dense(), self.recipe):
                return [*first, functional.linear(inputs[-1], dense, biases[-1])]
        products = list(self._products(rows))
        products[-1] = self.residual.add_to_output(products[-1], rows[-1])
        results = [y if b is None else y + b.to(y.dtype) for y, b in zip(products, biases, strict=True)]
        return [y.view(*x.shape[:-1], outputs) for x, y in zip(inputs, results, strict=True)]

    def _dense_is_cheaper(self, rows: int) -> bool:
        """By the multiplications of forward and backward pass that each form adds to those of the source weight."""
        (outputs, columns), width = self.source.shape, min(self.residual.transform.ranks)
        dense = 3 * outputs * columns * width
        if not self.source.requires_grad:
            # Nobody else needs the full weight gradient then; the factored form does without it.
            dense += rows * outputs * columns
        return dense <= 3 * rows * (outputs + columns) * width

    def _products(self, rows: list[Tensor]) -> Sequence[Tensor]:
        """All rows times the source weight, as one product; together with A2 if the inner matrix is not known yet."""
        # Under autocast this product is one of half precision, which T must not be made of.
        alone = self.residual.is_known or is_autocast(self.source)
        blocks = rows if alone else [*rows, self.residual.transform.A2.T]
        joined = blocks[0] if len(blocks) == 1 else torch.cat(blocks)
        products = torch.split(functional.linear(joined, self.source), [len(block) for block in blocks])
        if len(blocks) > len(rows):
            self.residual.use_product(products[-1].T)
        return products[: len(rows)]


def linear_arguments(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
    """The arguments of ``torch.nn.functional.linear``, however they were passed."""
    return input, weight, bias
