"""How far the weights of two streams may be apart: the weight regularisers of "Beyond Sharing Weights".

Rozantsev, Salzmann and Fua 2016. For each layer that is not shared, the target weights should be close to a
scaled and shifted copy of the source weights, with two learned numbers a and b per layer (1 and 0 at the
start).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from residapt.errors import ModelError

MAX_EXPONENT = 20.0
"""Above this squared distance the exponential is continued by its tangent; exp(89) overflows single precision."""


def squared_distance(theta_s: Tensor, theta_t: Tensor, a: Tensor | float = 1.0, b: Tensor | float = 0.0) -> Tensor:
    r"""The L2 form :math:`r_w = \|a\,\theta^s + b - \theta^t\|_2^2` of one layer."""
    if theta_s.shape != theta_t.shape:
        raise ModelError(
            "the weights of both streams must have the same shape, "
            f"got {tuple(theta_s.shape)} and {tuple(theta_t.shape)}."
        )
    return (a * theta_s + b - theta_t).square().sum()


def exponential_distance(theta_s: Tensor, theta_t: Tensor, a: Tensor | float = 1.0, b: Tensor | float = 0.0) -> Tensor:
    r"""The exponential form :math:`r_w = \exp(\|a\,\theta^s + b - \theta^t\|_2^2) - 1`, the paper's default.

    The exponent is limited to :data:`MAX_EXPONENT`; beyond, the function continues along its tangent there,
    so that it stays finite without losing the gradient that draws the streams together again.
    """
    exponent = squared_distance(theta_s, theta_t, a, b)
    beyond = (exponent - MAX_EXPONENT).clamp_min(0)
    return torch.expm1(exponent.clamp_max(MAX_EXPONENT)) + math.exp(MAX_EXPONENT) * beyond
