r"""The residual transform of one layer, Eq. 2 of Rozantsev et al. 2018.

.. math:: \Theta^t = \Theta^s + B_1\,\sigma(A_1^\top\Theta^s A_2 + D)\,B_2^\top

Weights and biases are two blocks: with :math:`\Theta = [W\; b]` the matrices on the input side,
:math:`A_2` and :math:`B_2`, are block diagonal ("the weights are linear combinations of weights and the biases of
biases"), while :math:`A_1` and :math:`B_1`, on the output side, have nothing to split and are common to both.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

Nonlinearity = Callable[[Tensor], Tensor]


class Residual:
    r"""The factors of :math:`\Theta^t - \Theta^s` for one step; dense matrices are formed only on demand.

    The inner matrix S = :math:`\sigma(T)` is computed when it is first needed, so that a layer that multiplies by its
    weights anyway can get :math:`\Theta^s A_2` from the same product (:meth:`use_product`).
    """

    def __init__(self, transform: ResidualTransform, weight: Tensor, bias: Tensor | None) -> None:
        self.transform, self.source = transform, weight
        self.B1, self.B2 = transform.B1, transform.B2
        self.bias_core: Tensor | None = None
        if transform.has_bias and bias is not None:
            self.bias_core = transform.nonlinearity(transform.bias_core(bias))
            self.bias_B2 = transform.bias_B2
        self._core: Tensor | None = None

    @property
    def core(self) -> Tensor:
        r""":math:`S = \sigma(T)`, shape (l, r)."""
        if self._core is None:
            self._core = self.transform.nonlinearity(self.transform.core(self.source))
        return self._core

    @property
    def core_is_known(self) -> bool:
        """Whether S has been computed."""
        return self._core is not None

    def use_product(self, product: Tensor) -> None:
        r"""Compute S from :math:`\Theta^s A_2`, shape (C, r)."""
        self._core = self.transform.nonlinearity(self.transform.core_from(product))

    def weight(self) -> Tensor:
        r""":math:`\Delta W = B_1 S B_2^\top`."""
        left, right = self._two_factors()
        return left @ right.T

    def add_to_weight(self, theta: Tensor) -> Tensor:
        r""":math:`W + \Delta W`, in one pass over the C x N matrix."""
        if self.is_zero:
            return theta
        left, right = self._two_factors()
        return torch.addmm(theta, left, right.T)

    def add_to_bias(self, bias: Tensor) -> Tensor:
        r""":math:`b + \Delta b`, the biases' own block."""
        if self.bias_core is None or self.bias_core.numel() == 0:
            return bias
        return bias + self.B1 @ (self.bias_core @ self.bias_B2.T).squeeze(1)

    def add_to_output(self, y: Tensor, x: Tensor) -> Tensor:
        r""":math:`y + \Delta W x` for rows ``x`` and ``y``, without forming :math:`\Delta W`."""
        return y if self.is_zero else torch.addmm(y, (x @ self.B2) @ self.core.T, self.B1.T)

    def apply(self, x: Tensor) -> Tensor:
        r""":math:`\Delta W x` for rows ``x``, without forming :math:`\Delta W`."""
        return ((x @ self.B2) @ self.core.T) @ self.B1.T

    @property
    def is_zero(self) -> bool:
        """Whether a rank of 0 leaves the weights as they are."""
        return min(self.transform.ranks) == 0

    def energy(self) -> Tensor:
        r""":math:`\|\Delta\Theta\|_F^2 = \mathrm{tr}(S^\top (B_1^\top B_1) S (B_2^\top B_2))`, a term of Eq. 8.

        Only l x l and r x r Gram matrices are formed.
        """
        gram = self.B1.T @ self.B1
        total = ((gram @ self.core) * (self.core @ (self.B2.T @ self.B2))).sum()
        if self.bias_core is not None:
            right = self.bias_B2.T @ self.bias_B2
            total = total + ((gram @ self.bias_core) * (self.bias_core @ right)).sum()
        return total

    def _two_factors(self) -> tuple[Tensor, Tensor]:
        # The core goes to the side that leaves the smaller inner dimension for the C x N product.
        if self.core.shape[1] <= self.core.shape[0]:
            return self.B1 @ self.core, self.B2
        return self.B1, self.B2 @ self.core.T


class ResidualTransform(nn.Module):
    r"""Map source weights to target weights (Rozantsev et al. 2018, Eq. 2).

    .. math:: \Theta^t = \Theta^s + B_1\,\sigma(A_1^\top\Theta^s A_2 + D)\,B_2^\top

    ``left_rank`` and ``right_rank`` (:math:`l, r`) are widths: they may exceed the layer's size, and 0 shares the
    layer. ``bias_rank`` is the width of the biases' block, 0 for a layer without bias.
    """

    A1: Tensor
    A2: Tensor
    B1: Tensor
    B2: Tensor
    D: Tensor
    bias_A2: Tensor
    bias_B2: Tensor
    bias_D: Tensor

    def __init__(
        self,
        outputs: int,
        inputs: int,
        *,
        left_rank: int,
        right_rank: int,
        bias_rank: int = 0,
        nonlinearity: Nonlinearity = torch.tanh,
        has_bias: bool | None = None,
    ) -> None:
        super().__init__()
        self.has_bias = bias_rank > 0 if has_bias is None else has_bias
        self.nonlinearity = nonlinearity
        shapes = {
            "A1": (outputs, left_rank),
            "A2": (inputs, right_rank),
            "B1": (outputs, left_rank),
            "B2": (inputs, right_rank),
            "D": (left_rank, right_rank),
        }
        if self.has_bias:
            shapes |= {"bias_A2": (1, bias_rank), "bias_B2": (1, bias_rank), "bias_D": (left_rank, bias_rank)}
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.empty(shape)))

    @property
    def ranks(self) -> tuple[int, int]:
        """(l, r) of the weights' block."""
        return self.D.shape[0], self.D.shape[1]

    @property
    def alive(self) -> bool:
        """Whether the transform still changes anything; a layer that is not alive is shared."""
        return self.D.shape[0] > 0 and self.D.shape[1] + self.bias_rank > 0

    @property
    def bias_rank(self) -> int:
        """Width of the biases' block."""
        return self.bias_D.shape[1] if self.has_bias else 0

    @property
    def inputs(self) -> int:
        """N, the number of columns of [W b]."""
        return self.A2.shape[0] + int(self.has_bias)

    @property
    def outputs(self) -> int:
        """C, the number of rows of the matrix."""
        return self.A1.shape[0]

    def core(self, weight: Tensor) -> Tensor:
        r"""The inner matrix :math:`T = A_1^\top W A_2 + D` of the weights, which rank selection shrinks."""
        if self.D.shape[0] <= self.D.shape[1]:
            return torch.addmm(self.D, self.A1.T @ weight, self.A2)
        return self.core_from(weight @ self.A2)

    def core_from(self, product: Tensor) -> Tensor:
        r"""T from the product :math:`W A_2`."""
        return torch.addmm(self.D, self.A1.T, product)

    def bias_core(self, bias: Tensor) -> Tensor:
        r"""The biases' block of the inner matrix, :math:`A_1^\top b\, a_2 + d`."""
        return torch.addmm(self.bias_D, (self.A1.T @ bias).unsqueeze(1), self.bias_A2)

    def residual(self, weight: Tensor, bias: Tensor | None = None) -> Residual:
        """The residual at the source weights, ready to be applied or measured."""
        return Residual(self, weight, bias)

    def forward(self, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Target weight matrix and bias of the layer."""
        residual = self.residual(weight, bias)
        return residual.add_to_weight(weight), None if bias is None else residual.add_to_bias(bias)
