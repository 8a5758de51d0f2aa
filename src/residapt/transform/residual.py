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

from residapt.transform.precision import full_precision

Nonlinearity = Callable[[Tensor], Tensor]


class Residual:
    r"""What a transform adds at the given source tensors, for one step; C x N matrices are formed only on demand.

    :math:`\Delta W = B_1 S B_2^\top` is kept as two factors. The inner matrix :math:`S = \sigma(T)` is computed when it
    is first needed, so that a layer that multiplies by its weights anyway can get :math:`W A_2` from the same product
    (:meth:`use_product`).
    """

    def __init__(self, transform: ResidualTransform, weight: Tensor, bias: Tensor | None) -> None:
        self.transform, self.source = transform, weight
        self._bias_delta = None if bias is None else transform.bias_residual(bias)
        self._factors: tuple[Tensor, Tensor] | None = None

    @property
    def is_zero(self) -> bool:
        """Whether a rank of 0 leaves the weights as they are."""
        return min(self.transform.ranks) == 0

    @property
    def is_known(self) -> bool:
        """Whether the inner matrix has been computed."""
        return self._factors is not None

    def factors(self) -> tuple[Tensor, Tensor]:
        r"""L (C x k) and R (N x k) with :math:`\Delta W = L R^\top` and k the smaller rank."""
        if self._factors is None:
            self._factors = self._split(self.transform.core(self.source))
        return self._factors

    def use_product(self, product: Tensor) -> None:
        r"""Find the factors by way of :math:`W A_2`, shape (C, r)."""
        self._factors = self._split(self.transform.core_from(product))

    def _split(self, core: Tensor) -> tuple[Tensor, Tensor]:
        with full_precision(core):
            S = self.transform.nonlinearity(core)
            B1, B2 = self.transform.B1, self.transform.B2
            # S goes to the side that leaves the smaller inner dimension.
            return (B1 @ S, B2) if S.shape[1] <= S.shape[0] else (B1, B2 @ S.T)

    def weight(self) -> Tensor:
        r""":math:`\Delta W`."""
        L, R = self.factors()
        with full_precision(L):
            return L @ R.T

    def add_to_weight(self, theta: Tensor) -> Tensor:
        r""":math:`W + \Delta W`, in one pass over the C x N matrix."""
        if self.is_zero:
            return theta
        L, R = self.factors()
        with full_precision(L):
            return torch.addmm(theta, L, R.T)

    def add_to_bias(self, bias: Tensor) -> Tensor:
        r""":math:`b + \Delta b`, the biases' own block."""
        return bias if self._bias_delta is None else bias + self._bias_delta

    def apply(self, x: Tensor) -> Tensor:
        r""":math:`\Delta W x` for rows ``x``, without forming :math:`\Delta W`."""
        L, R = self.factors()
        return (x @ R) @ L.T

    def add_to_output(self, y: Tensor, x: Tensor) -> Tensor:
        r""":math:`y + \Delta W x` for rows ``x`` and ``y``."""
        if self.is_zero:
            return y
        L, R = self.factors()
        return torch.addmm(y, x @ R, L.T)

    def energy(self) -> Tensor:
        r""":math:`\|\Delta\Theta\|_F^2 = \mathrm{tr}(L^\top L\, R^\top R) + \|\Delta b\|^2`, a term of Eq. 8.

        Only k x k Gram matrices are formed.
        """
        L, R = self.factors()
        with full_precision(L):
            total = ((L.T @ L) * (R.T @ R)).sum()
            return total if self._bias_delta is None else total + self._bias_delta.dot(self._bias_delta)


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
        with full_precision(weight):
            if self.D.shape[0] <= self.D.shape[1]:
                return torch.addmm(self.D, self.A1.T @ weight, self.A2)
            return self.core_from(weight @ self.A2)

    def core_from(self, product: Tensor) -> Tensor:
        r"""T from the product :math:`W A_2`."""
        return torch.addmm(self.D, self.A1.T, product)

    def bias_core(self, bias: Tensor) -> Tensor:
        r"""The biases' block of the inner matrix, :math:`A_1^\top b\, a_2 + d`."""
        with full_precision(bias):
            return torch.addmm(self.bias_D, (self.A1.T @ bias).unsqueeze(1), self.bias_A2)

    def bias_residual(self, bias: Tensor) -> Tensor | None:
        r""":math:`\Delta b = B_1 \sigma(A_1^\top b\, a_2 + d)\, b_2^\top`; None where biases are not transformed."""
        if not self.has_bias or min(self.bias_D.shape) == 0:
            return None
        with full_precision(bias):
            S = self.nonlinearity(self.bias_core(bias))
            return self.B1 @ (S @ self.bias_B2[0])

    def residual(self, weight: Tensor, bias: Tensor | None = None) -> Residual:
        """The residual at the source weights, ready to be applied or measured."""
        return Residual(self, weight, bias)

    def forward(self, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Target weight matrix and bias of the layer."""
        residual = self.residual(weight, bias)
        return residual.add_to_weight(weight), None if bias is None else residual.add_to_bias(bias)
