r"""The stream loss (Eq. 7-8): a log barrier that keeps the two streams apart, but not too far."""

from __future__ import annotations

from torch import Tensor


def stream_loss(energy: Tensor) -> Tensor:
    r""":math:`L_\omega - \log L_\omega` with :math:`L_\omega = \sum_i \|\Delta\Theta_i\|_F^2`; smallest, 1, at 1."""
    return energy - energy.log()
