from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from residapt.errors import DataError
from residapt.losses.reconstruction import difference_loss, scale_invariant_mse


def batch(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slow_simse(prediction: Tensor, target: Tensor) -> float:
    """Eq. 4 as it is written, sample by sample."""
    total = 0.0
    for x, y in zip(prediction.flatten(1).tolist(), target.flatten(1).tolist(), strict=True):
        d = [a - b for a, b in zip(x, y, strict=True)]
        k = len(d)
        total += sum(v * v for v in d) / k - sum(d) ** 2 / k**2
    return total / len(prediction)


def unit_rows(x: list[list[float]]) -> list[list[float]]:
    mean = [sum(row[j] for row in x) / len(x) for j in range(len(x[0]))]
    centred = [[v - m for v, m in zip(row, mean, strict=True)] for row in x]
    return [[v / math.sqrt(sum(w * w for w in row)) for v in row] for row in centred]


def slow_difference(private: Tensor, shared: Tensor) -> float:
    p, c = unit_rows(private.tolist()), unit_rows(shared.tolist())
    entries = [sum(p[n][i] * c[n][j] for n in range(len(p))) ** 2 for i in range(len(p[0])) for j in range(len(c[0]))]
    return sum(entries) / len(entries)


def test_simse_equals_the_equation() -> None:
    x, y = batch(0, 3, 2, 4, 4), batch(1, 3, 2, 4, 4)
    assert scale_invariant_mse(x, y).item() == pytest.approx(slow_simse(x, y), rel=1e-12)


@given(seed=st.integers(0, 1000), shift=st.floats(-50, 50))
def test_simse_subtracts_its_second_term(seed: int, shift: float) -> None:
    """A constant error costs nothing; with the sign turned around it would cost twice its square."""
    x, y = batch(seed, 2, 1, 3, 3), batch(seed + 1, 2, 1, 3, 3)
    assert scale_invariant_mse(y + shift, y).item() < 1e-20
    assert scale_invariant_mse(x + shift, y).item() == pytest.approx(scale_invariant_mse(x, y).item())
    assert scale_invariant_mse(x, y) <= torch.nn.functional.mse_loss(x, y)


def test_simse_removes_each_samples_own_mean_not_the_batchs() -> None:
    shifts = torch.tensor([1.0, -1.0, 5.0]).reshape(3, 1, 1, 1)
    assert scale_invariant_mse(torch.zeros(3, 1, 2, 2) + shifts, torch.zeros(3, 1, 2, 2)) == 0


def test_difference_equals_the_loop() -> None:
    private, shared = batch(2, 5, 3), batch(3, 5, 4)
    assert difference_loss(private, shared).item() == pytest.approx(slow_difference(private, shared))


@given(seed=st.integers(0, 1000), scale=st.floats(0.01, 100), shift=st.floats(-10, 10))
def test_difference_ignores_scale_and_mean(seed: int, scale: float, shift: float) -> None:
    private, shared = batch(seed, 5, 3), batch(seed + 1, 5, 3)
    value = difference_loss(private, shared).item()
    assert difference_loss(scale * private + shift, shared).item() == pytest.approx(value, rel=1e-6)


def test_difference_normalises_each_sample() -> None:
    """Opposite samples, so the mean is zero: making one such pair longer must not change the loss."""
    half, other = batch(4, 3, 4), batch(5, 3, 4)
    lengths = torch.tensor([[1.0], [10.0], [0.1]], dtype=torch.float64)
    private, shared = torch.cat([half, -half]), torch.cat([other, -other])
    longer = torch.cat([half * lengths, -half * lengths])
    expected = difference_loss(private, shared).item()
    assert difference_loss(longer, shared).item() == pytest.approx(expected, rel=1e-10)


def test_difference_is_zero_for_uncorrelated_and_largest_for_equal_features() -> None:
    private = torch.tensor([[1.0], [1.0], [-1.0], [-1.0]])
    shared = torch.tensor([[1.0], [-1.0], [1.0], [-1.0]])
    assert difference_loss(private, shared).item() == pytest.approx(0.0)
    assert difference_loss(private, private).item() == pytest.approx(16.0)


def test_difference_survives_samples_at_the_batch_mean() -> None:
    private = torch.zeros(4, 3, requires_grad=True)
    difference_loss(private, batch(6, 4, 3).float()).backward()
    assert private.grad is not None
    assert private.grad.isfinite().all()


def test_gradients() -> None:
    x, y = batch(7, 3, 4).requires_grad_(), batch(8, 3, 4).requires_grad_()
    assert torch.autograd.gradcheck(scale_invariant_mse, (x, y))
    assert torch.autograd.gradcheck(difference_loss, (x, y))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(DataError):
        scale_invariant_mse(torch.zeros(2, 1), torch.zeros(2, 3))
    with pytest.raises(DataError):
        difference_loss(torch.zeros(2, 3), torch.zeros(4, 3))
