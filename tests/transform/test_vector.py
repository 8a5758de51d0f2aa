from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from residapt.transform import VectorTransform


def slow_residual(A: list[list[float]], B: list[list[float]], d: list[float], theta: list[float]) -> list[float]:
    """Eq. 1 element by element."""
    inner = [math.tanh(sum(A[m][k] * theta[m] for m in range(len(theta))) + d[k]) for k in range(len(d))]
    return [sum(B[m][k] * inner[k] for k in range(len(d))) for m in range(len(theta))]


@given(rank=st.integers(0, 3), has_bias=st.booleans(), seed=st.integers(0, 99))
def test_target_weights_are_those_of_equation_1(rank: int, has_bias: bool, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    transform = VectorTransform(3, 2, rank=rank, has_bias=has_bias).double()
    with torch.no_grad():
        for parameter in transform.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    weight = torch.randn(3, 2, generator=generator, dtype=torch.float64)
    bias = torch.randn(3, generator=generator, dtype=torch.float64)
    theta = [*weight.reshape(-1).tolist(), *(bias.tolist() if has_bias else [])]
    expected = slow_residual(transform.A.tolist(), transform.B.tolist(), transform.d.tolist(), theta)
    residual = transform.residual(weight, bias if has_bias else None)
    found = (residual.add_to_weight(weight) - weight).reshape(-1).tolist()
    if has_bias:
        found += (residual.add_to_bias(bias) - bias).tolist()
    assert found == pytest.approx(expected, abs=1e-12)
    assert residual.energy().item() == pytest.approx(sum(value**2 for value in expected), abs=1e-12)


@given(C=st.integers(1, 6), N=st.integers(1, 6), k=st.integers(0, 5))
def test_each_unit_of_rank_costs_2m_plus_1_parameters(C: int, N: int, k: int) -> None:
    transform = VectorTransform(C, N - 1, rank=k, has_bias=True)
    assert sum(parameter.numel() for parameter in transform.parameters()) == (2 * N * C + 1) * k


def test_rank_zero_is_the_identity() -> None:
    transform = VectorTransform(3, 2, rank=0)
    weight = torch.randn(3, 2)
    assert torch.equal(transform.residual(weight).add_to_weight(weight), weight)
    assert not transform.alive
    assert transform.ranks == (0, 0)
