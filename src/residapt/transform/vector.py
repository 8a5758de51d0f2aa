r"""The vector form, Eq. 1: :math:`\theta^t = \theta^s + B\,\sigma(A^\top\theta^s + d)`.

Each unit of rank costs :math:`2M+1` parameters for a layer of M parameters, which is why the paper moves on to
Eq. 2; it is kept for the ablation and for the comparison of parameter counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from residapt.transform.precision import full_precision
from residapt.transform.residual import Nonlinearity


@dataclass(frozen=True)
class VectorResidual:
    r"""The residual :math:`B s` of a layer's parameters, split into its weights and its biases."""

    weight_delta: Tensor
    bias_delta: Tensor

    def add_to_weight(self, theta: Tensor) -> Tensor:
        """Target weight matrix."""
        return theta + self.weight_delta

    def add_to_bias(self, bias: Tensor) -> Tensor:
        """Target bias."""
        return bias + self.bias_delta

    def energy(self) -> Tensor:
        r""":math:`\|\Delta\theta\|^2`, a term of Eq. 8."""
        return self.weight_delta.square().sum() + self.bias_delta.square().sum()


class VectorTransform(nn.Module):
    """Eq. 1 on the concatenation of a layer's weights and biases, with rank k."""

    def __init__(
        self,
        outputs: int,
        inputs: int,
        *,
        rank: int,
        has_bias: bool = False,
        nonlinearity: Nonlinearity = torch.tanh,
    ) -> None:
        super().__init__()
        self.outputs, self.columns, self.has_bias = outputs, inputs, has_bias
        self.nonlinearity = nonlinearity
        size = outputs * (inputs + int(has_bias))
        self.A = nn.Parameter(torch.empty(size, rank))
        self.B = nn.Parameter(torch.empty(size, rank))
        self.d = nn.Parameter(torch.empty(rank))

    @property
    def ranks(self) -> tuple[int, int]:
        """(k, k), so that tables can show both forms in one column."""
        return self.d.numel(), self.d.numel()

    @property
    def alive(self) -> bool:
        """Whether the transform changes anything."""
        return self.d.numel() > 0

    def residual(self, weight: Tensor, bias: Tensor | None = None) -> VectorResidual:
        """The residual at the source parameters."""
        theta = weight.reshape(-1) if not self.has_bias or bias is None else torch.cat([weight.reshape(-1), bias])
        with full_precision(theta):
            delta = self.B @ self.nonlinearity(self.A.T @ theta + self.d)
        size = self.outputs * self.columns
        return VectorResidual(delta[:size].view(self.outputs, self.columns), delta[size:])
