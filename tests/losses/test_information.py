from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from residapt.errors import DataError
from residapt.losses.information import entropy, information_maximisation


def softmax_rows(logits: list[list[float]]) -> list[list[float]]:
    rows = []
    for row in logits:
        top = max(row)
        exps = [math.exp(v - top) for v in row]
        rows.append([e / sum(exps) for e in exps])
    return rows


def slow_entropy(p: list[float]) -> float:
    return -sum(v * math.log(v) for v in p if v > 0)


def random_logits(seed: int, scale: float = 1.0) -> Tensor:
    return torch.randn(6, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale


def one_hot_logits(classes: list[int], count: int) -> Tensor:
    """Predictions so sure that every other probability underflows."""
    return torch.nn.functional.one_hot(torch.tensor(classes), count).double() * 1e4


@given(seed=st.integers(0, 10_000), scale=st.floats(0, 50))
def test_both_terms_equal_the_loop(seed: int, scale: float) -> None:
    logits = random_logits(seed, scale)
    p = softmax_rows(logits.tolist())
    mean = [sum(row[k] for row in p) / len(p) for k in range(4)]
    assert entropy(logits).tolist() == pytest.approx([slow_entropy(row) for row in p], abs=1e-10)
    expected = sum(slow_entropy(row) for row in p) / len(p) - slow_entropy(mean)
    assert information_maximisation(logits).item() == pytest.approx(expected, abs=1e-10)


@given(seed=st.integers(0, 10_000))
def test_with_a_prior_the_diversity_is_the_divergence_from_it(seed: int) -> None:
    logits, prior = random_logits(seed), torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
    p = softmax_rows(logits.tolist())
    mean = [sum(row[k] for row in p) / len(p) for k in range(4)]
    divergence = sum(m * math.log(m / q) for m, q in zip(mean, prior.tolist(), strict=True))
    expected = sum(slow_entropy(row) for row in p) / len(p) + divergence
    assert information_maximisation(logits, prior).item() == pytest.approx(expected)
    assert information_maximisation(logits, 7 * prior).item() == pytest.approx(expected)


@given(seed=st.integers(0, 10_000), scale=st.floats(0, 20))
def test_the_loss_lies_between_its_bounds(seed: int, scale: float) -> None:
    """H(mean) >= mean H, as entropy is concave; and no mean has more entropy than the flat one."""
    value = information_maximisation(random_logits(seed, scale)).item()
    assert -math.log(4) - 1e-12 <= value <= 1e-12


def test_a_flat_prior_only_adds_log_k() -> None:
    logits = random_logits(0)
    flat = information_maximisation(logits, torch.full((4,), 0.25))
    assert flat.item() == pytest.approx(information_maximisation(logits).item() + math.log(4))


def test_the_minimum_is_sure_and_follows_the_prior() -> None:
    flat, skewed = one_hot_logits([0, 1, 2, 3], 4), one_hot_logits([0, 0, 1, 2], 4)
    assert information_maximisation(flat).item() == pytest.approx(-math.log(4))
    assert information_maximisation(flat) < information_maximisation(skewed)
    prior = torch.tensor([0.5, 0.25, 0.25, 1e-12])
    assert information_maximisation(skewed, prior).item() == pytest.approx(0.0, abs=1e-6)
    assert information_maximisation(skewed, prior) < information_maximisation(flat, prior)


def test_a_collapse_to_one_class_earns_nothing() -> None:
    assert information_maximisation(one_hot_logits([2, 2, 2], 4)).item() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_underflow_leaves_value_and_gradient_finite(dtype: torch.dtype) -> None:
    logits = one_hot_logits([0, 0, 1], 3).to(dtype).requires_grad_()
    prior = torch.tensor([1.0, 0.0, 0.0])
    loss = information_maximisation(logits, prior)
    loss.backward()
    assert loss.isfinite()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_gradients() -> None:
    logits = random_logits(1).requires_grad_()
    prior = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
    assert torch.autograd.gradcheck(information_maximisation, (logits,))
    assert torch.autograd.gradcheck(lambda z: information_maximisation(z, prior), (logits,))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(DataError, match=r"4 classes"):
        information_maximisation(random_logits(0), torch.ones(3))
    with pytest.raises(DataError, match=r"\(samples, classes\)"):
        information_maximisation(torch.zeros(0, 3))


@pytest.mark.parametrize("prior", [None, torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)])
@pytest.mark.parametrize("scale", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("diversity", [0.0, 0.3, 1.0])
def test_value_and_gradient_are_those_of_the_formula(prior: Tensor | None, scale: float, diversity: float) -> None:
    logits = random_logits(3, scale).requires_grad_()
    p = logits.softmax(dim=1)
    log_prior = 0.0 if prior is None else prior.log()
    mean = p.mean(dim=0)
    formula = -(p * p.log()).sum(dim=1).mean() + diversity * (mean * (mean.log() - log_prior)).sum()
    (expected,) = torch.autograd.grad(formula, logits)
    value = information_maximisation(logits, prior, diversity=diversity)
    (found,) = torch.autograd.grad(3 * value, logits)
    torch.testing.assert_close(value, formula, atol=1e-12, rtol=1e-9)
    torch.testing.assert_close(found, 3 * expected, atol=1e-12, rtol=1e-9)


def test_half_precision_is_computed_in_single() -> None:
    logits = random_logits(0).half().requires_grad_()
    loss = information_maximisation(logits)
    assert loss.dtype == torch.float32
    loss.backward()
    assert logits.grad is not None
    assert logits.grad.dtype == torch.float16
