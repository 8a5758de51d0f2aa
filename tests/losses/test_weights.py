from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from residapt.errors import ModelError
from residapt.losses.weights import MAX_EXPONENT, exponential_distance, squared_distance


def at_squared_distance(value: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Two weights that are apart by the square root of ``value``."""
    return torch.zeros(1, dtype=torch.float64), torch.full((1,), math.sqrt(value), dtype=torch.float64)


@given(seed=st.integers(0, 1000), a=st.floats(-2, 2), b=st.floats(-1, 1))
def test_both_forms_equal_the_loop(seed: int, a: float, b: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    theta_s = torch.randn(2, 3, generator=generator, dtype=torch.float64) * 0.3
    theta_t = torch.randn(2, 3, generator=generator, dtype=torch.float64) * 0.3
    pairs = zip(theta_s.flatten().tolist(), theta_t.flatten().tolist(), strict=True)
    r = sum((a * s + b - t) ** 2 for s, t in pairs)
    assert squared_distance(theta_s, theta_t, a, b).item() == pytest.approx(r)
    expected = math.exp(r) - 1 if r <= 20 else math.exp(20) * (r - 19) - 1
    assert exponential_distance(theta_s, theta_t, a, b).item() == pytest.approx(expected)


def test_equal_streams_cost_nothing_and_start_flat() -> None:
    theta_s = torch.randn(3, 2)
    theta_t = theta_s.clone().requires_grad_()
    loss = exponential_distance(theta_s, theta_t)
    loss.backward()
    assert loss.item() == 0.0
    assert theta_t.grad is not None
    assert not theta_t.grad.any()


def test_a_learned_scale_and_shift_can_explain_the_difference() -> None:
    theta_s = torch.randn(4, 4, dtype=torch.float64)
    assert exponential_distance(theta_s, 0.5 * theta_s - 0.1, a=0.5, b=-0.1).item() < 1e-20
    assert exponential_distance(theta_s, 0.5 * theta_s - 0.1).item() > 0.1


def test_gradients_reach_weights_scale_and_shift() -> None:
    tensors = [torch.randn(2, 2, dtype=torch.float64).mul(0.3).requires_grad_() for _ in range(2)]
    a = torch.tensor(1.1, dtype=torch.float64, requires_grad=True)
    b = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(exponential_distance, (*tensors, a, b))
    assert torch.autograd.gradcheck(squared_distance, (*tensors, a, b))


def test_far_streams_stay_finite_and_are_still_drawn_together() -> None:
    theta_s, theta_t = torch.zeros(1000), torch.full((1000,), 3.0, requires_grad=True)
    loss = exponential_distance(theta_s, theta_t)
    loss.backward()
    assert loss.isfinite()
    assert theta_t.grad is not None
    assert (theta_t.grad > 0).all()


def test_the_tangent_continues_value_and_slope() -> None:
    below = exponential_distance(*at_squared_distance(MAX_EXPONENT - 1e-6)).item()
    above = exponential_distance(*at_squared_distance(MAX_EXPONENT + 1e-6)).item()
    assert (above - below) / 2e-6 == pytest.approx(math.exp(MAX_EXPONENT), rel=1e-4)
    beyond = exponential_distance(*at_squared_distance(MAX_EXPONENT + 3)).item()
    assert beyond == pytest.approx(4 * math.exp(MAX_EXPONENT), rel=1e-6)


def test_other_shapes_are_refused() -> None:
    with pytest.raises(ModelError, match=r"\(2, 3\) and \(3,\)"):
        squared_distance(torch.zeros(2, 3), torch.zeros(3))
