r"""A1 and A2 from the shrunk inner matrix (Appendix A).

.. math::
   A_1 = \arg\min \|A_1-\hat A_1\|^2 + \|A_1^\top M - Y\|^2, \quad M = \Theta\hat A_2,\; Y = T^* - D \\
   A_2 = \arg\min \|A_2-\hat A_2\|^2 + \|K A_2 - Y\|^2, \quad K = A_1^\top\Theta

Both are solved in closed form by the push-through identity, with r x r and l x l systems only.
"""

from __future__ import annotations

import torch
from torch import Tensor


def solve_left(A1: Tensor, M: Tensor, Y: Tensor) -> Tensor:
    r""":math:`A_1 = \hat A_1 + M (I + M^\top M)^{-1} (Y - \hat A_1^\top M)^\top`, an r x r system."""
    return A1 + M @ _solve(M.T @ M, (Y - A1.T @ M).T)


def solve_right(A2: Tensor, K: Tensor, Y: Tensor) -> Tensor:
    r""":math:`A_2 = \hat A_2 + K^\top (I + K K^\top)^{-1} (Y - K\hat A_2)`, an l x l system."""
    return A2 + K.T @ _solve(K @ K.T, Y - K @ A2)


def _solve(gram: Tensor, right: Tensor) -> Tensor:
    """(I + gram)^-1 right; the system is symmetric positive definite, so Cholesky is safe."""
    identity = torch.eye(gram.shape[0], dtype=gram.dtype, device=gram.device)
    return torch.cholesky_solve(right, torch.linalg.cholesky(identity + gram))
