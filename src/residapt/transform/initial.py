r"""How the transforms start (method notes 3.1).

The barrier :math:`L_\omega - \log L_\omega` has its minimum at :math:`L_\omega = 1` and a slope of -1e6 at 1e-6, so
zero residuals are no option. All factors are drawn from N(0, 1) and D is 0; then A is scaled so that every column
of every T has the same norm (the proximal step acts on that norm), and B so that the residuals' energies add up to
exactly 1, shared among the layers in proportion to the energy of their weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from residapt.transform.residual import Nonlinearity, ResidualTransform
from residapt.transform.vector import VectorTransform

Transform = ResidualTransform | VectorTransform


class Start(NamedTuple):
    """One transform with the source tensors at which it starts."""

    transform: Transform
    weight: Tensor
    bias: Tensor | None


@torch.no_grad()
def initialise(
    starts: Sequence[Start], *, column_norm: float, energy: float, generator: torch.Generator | None = None
) -> None:
    """Draw all factors, then scale them to the given column norm of T and total energy of the residuals."""
    for transform, weight, bias in starts:
        if isinstance(transform, ResidualTransform):
            _draw_matrix_form(transform, weight, bias, column_norm, generator)
        else:
            _draw_vector_form(transform, weight, bias, column_norm, generator)
    _share_energy([s for s in starts if s.transform.alive], energy)


def _draw(parameters: Sequence[Tensor], generator: torch.Generator | None) -> None:
    for parameter in parameters:
        # Drawn on the CPU in float64: the same start on every device and in every precision.
        parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))


def _draw_matrix_form(
    transform: ResidualTransform, weight: Tensor, bias: Tensor | None, norm: float, generator: torch.Generator | None
) -> None:
    blocks = [transform.A1, transform.A2, transform.B1, transform.B2]
    if transform.has_bias:
        blocks += [transform.bias_A2, transform.bias_B2]
    _draw(blocks, generator)
    transform.D.zero_()
    if min(transform.ranks) > 0:
        # Equal shares of the scale for A1 and A2 first, the exact norm of each column by A2 alone.
        scale = transform.core(weight).norm(dim=0).mean()
        if scale > 0:
            transform.A1.mul_((norm / scale) ** 0.5)
    sigma = transform.nonlinearity
    _scale_columns(transform.A2, transform.D, transform.core(weight), norm, sigma, generator)
    if transform.has_bias:
        transform.bias_D.zero_()
        if bias is not None:
            core = transform.bias_core(bias)
            _scale_columns(transform.bias_A2, transform.bias_D, core, norm, sigma, generator)


def _scale_columns(
    A2: Tensor, D: Tensor, core: Tensor, norm: float, sigma: Nonlinearity, generator: torch.Generator | None
) -> None:
    """Give every column of T the norm; where the layer's weights are zero, D carries it instead of A."""
    norms = core.norm(dim=0)
    dead = norms <= torch.finfo(core.dtype).tiny
    scale = torch.where(dead, 1.0, norm / norms.masked_fill(dead, 1.0))
    if bool(dead.any()) and D.shape[0] > 0:
        draw = torch.randn(D.shape, generator=generator, dtype=torch.float64).to(D)
        D.copy_(torch.where(dead, draw * (norm / draw.norm(dim=0)), D))
    # ReLU maps a column of negative numbers to zeros: no energy, no gradient. The column's negative has both.
    silent = ~sigma(core * scale + D).bool().any(dim=0)
    A2.mul_(torch.where(silent, -scale, scale))
    D.mul_(torch.where(silent, -1.0, 1.0))


def _draw_vector_form(
    transform: VectorTransform, weight: Tensor, bias: Tensor | None, norm: float, generator: torch.Generator | None
) -> None:
    _draw([transform.A, transform.B], generator)
    transform.d.zero_()
    theta = weight.reshape(-1) if not transform.has_bias or bias is None else torch.cat([weight.reshape(-1), bias])
    # Here a column of T is one number.
    inner = (transform.A.T @ theta).unsqueeze(0)
    _scale_columns(transform.A, transform.d.unsqueeze(0), inner, norm, transform.nonlinearity, generator)


def _share_energy(starts: Sequence[Start], energy: float) -> None:
    shares = [float(_squared(weight) + (0.0 if bias is None else _squared(bias))) for _, weight, bias in starts]
    # A layer of zeros still gets a little: with B1 = B2 = 0 it would never receive a gradient.
    floor = max(1e-3 * sum(shares) / max(len(shares), 1), 1e-12)
    shares = [max(share, floor) for share in shares]
    total = sum(shares)
    for (transform, weight, bias), share in zip(starts, shares, strict=True):
        present = float(transform.residual(weight, bias).energy().double())
        factor = 0.0 if present == 0 else (energy * share / total / present) ** 0.5
        for side in _output_sides(transform):
            side.mul_(factor ** (1 / len(_output_sides(transform))))
        if isinstance(transform, ResidualTransform) and transform.has_bias:
            transform.bias_B2.mul_(factor**0.5)


def _output_sides(transform: nn.Module) -> list[Tensor]:
    return [transform.B] if isinstance(transform, VectorTransform) else [transform.B1, transform.B2]  # type: ignore[list-item]


def _squared(tensor: Tensor) -> Tensor:
    return tensor.double().square().sum()
