r"""Proximal operators of the group penalties on the inner matrix T (Eq. 12-13).

Wanted is

.. math::
   T^* = \arg\min_T \frac{1}{2t}\|T-\hat T\|_F^2
   + \lambda_r \Big(w_c \sum_c \|T_{\bullet c}\| + w_r \sum_r \|T_{r\bullet}\|\Big)

The paper solves two problems with weight 1/4t one after the other, which is close to the exact solution at twice the
:math:`\lambda_r`; that procedure is :func:`two_step_prox`. The exact one is :func:`exact_prox`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def group_soft_threshold(core: Tensor, *, threshold: float, dim: int) -> Tensor:
    r"""Shrink each group along ``dim``: :math:`(1 - \tau/\|v\|_2)_+\, v` (Yuan & Lin 2006)."""
    norm: Tensor = core.norm(dim=dim, keepdim=True)
    return core * (1 - threshold / norm.clamp_min(torch.finfo(core.dtype).tiny)).clamp_min(0)


def two_step_prox(core: Tensor, *, column_threshold: float, row_threshold: float) -> Tensor:
    r"""The paper's two steps (Eq. 13): columns, then rows, each with weight 1/4t and so with twice the threshold.

    Thresholds are :math:`t\lambda_r w_c` and :math:`t\lambda_r w_r`.
    """
    columns = group_soft_threshold(core, threshold=2 * column_threshold, dim=0)
    return group_soft_threshold(columns, threshold=2 * row_threshold, dim=1)


def split_prox(core: Tensor, *, column_threshold: float, row_threshold: float) -> Tensor:
    """Columns, then rows, at the thresholds of Eq. 12: a close approximation of :func:`exact_prox`."""
    columns = group_soft_threshold(core, threshold=column_threshold, dim=0)
    return group_soft_threshold(columns, threshold=row_threshold, dim=1)


def exact_prox(
    core: Tensor, *, column_threshold: float, row_threshold: float, iterations: int = 500, tolerance: float = 1e-9
) -> Tensor:
    r"""The prox of the sum (Eq. 12), within ``tolerance`` of the smallest objective.

    The dual variable P has columns of at most the column threshold's norm, and :math:`T = prox_{rows}(\hat T - P)`.
    One pass is one pass of the Dykstra-like iteration of Bauschke & Combettes 2008, which is a projected gradient step
    on P, here with the momentum of Beck & Teboulle 2009, restarted where it leads uphill.
    """
    thresholds = {"column_threshold": column_threshold, "row_threshold": row_threshold}
    # The duality gap is a difference of nearly equal numbers, which single precision cannot tell apart.
    exact = core if core.device.type == "mps" else core.double()
    tolerance = max(tolerance, 64 * torch.finfo(exact.dtype).eps)
    T = _iterate(exact, **thresholds, iterations=iterations, tolerance=tolerance)
    return _restore_zero_columns(T, exact, **thresholds).to(core.dtype)


def _iterate(
    core: Tensor, *, column_threshold: float, row_threshold: float, iterations: int, tolerance: float
) -> Tensor:
    P = W = torch.zeros_like(core)
    momentum = 1.0
    T = group_soft_threshold(core, threshold=row_threshold, dim=1)
    for _ in range(iterations):
        V = W + group_soft_threshold(core - W, threshold=row_threshold, dim=1)
        step = V - group_soft_threshold(V, threshold=column_threshold, dim=0)
        if float(((W - step) * (step - P)).sum()) > 0:
            momentum = 1.0
        following = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        W, P, momentum = step + (momentum - 1) / following * (step - P), step, following
        T = group_soft_threshold(core - P, threshold=row_threshold, dim=1)
        gap = column_threshold * T.norm(dim=0).sum() - (P * T).sum()
        objective = prox_objective(T, core, column_threshold=column_threshold, row_threshold=row_threshold)
        if float(gap) <= tolerance * float(objective):
            break
    return T


def _restore_zero_columns(T: Tensor, core: Tensor, *, column_threshold: float, row_threshold: float) -> Tensor:
    # The iteration ends with a row step, so zero rows are exact. Given those, a column of the solution is zero exactly
    # when its entries in the other rows have at most the threshold's norm. A row that is zero only because the
    # iteration has stopped would spoil this, hence the comparison.
    thresholds = {"column_threshold": column_threshold, "row_threshold": row_threshold}
    living = (T.norm(dim=1, keepdim=True) > 0).to(core.dtype)
    dead = (core * living).norm(dim=0, keepdim=True) <= column_threshold
    restored = torch.where(dead, 0.0, T)
    better = prox_objective(restored, core, **thresholds) <= prox_objective(T, core, **thresholds)
    return torch.where(better, restored, T)


def prox_objective(T: Tensor, core: Tensor, *, column_threshold: float, row_threshold: float) -> Tensor:
    r"""t times the objective of Eq. 12, :math:`\frac12\|T-\hat T\|^2 + \tau_c\sum_c\|T_c\| + \tau_r\sum_r\|T_r\|`."""
    penalty: Tensor = column_threshold * T.norm(dim=0).sum() + row_threshold * T.norm(dim=1).sum()
    return 0.5 * (T - core).square().sum() + penalty
