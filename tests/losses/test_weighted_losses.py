"""Weighted source samples: in expectation, and for moments exactly, they are a source with other class frequencies."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from residapt.errors import DataError
from residapt.losses.adversarial import DomainLogits, domain_loss, flipped_loss, uniform_loss
from residapt.losses.classification import weighted_cross_entropy
from residapt.losses.moments import coral, gaussian_mmd, linear_mmd, median_rbf_mmd, rbf_mmd
from residapt.losses.multilinear import entropy_weights

DISTANCES = {"linear": linear_mmd, "gaussian": gaussian_mmd, "rbf": rbf_mmd, "coral": coral}
repeats = st.lists(st.integers(0, 3), min_size=5, max_size=5).filter(lambda counts: sum(counts) >= 2)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def population() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Labels with frequencies (4, 2, 2) of 8, weights to (2, 2, 4), and the resampled indices, exactly."""
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2])
    weights = (torch.tensor([2.0, 2.0, 4.0]) / torch.tensor([4.0, 2.0, 2.0])).double()[labels]
    # Every sample once for each half of its weight: the population of 16 that has the target's frequencies.
    index = torch.repeat_interleave(torch.arange(8), (2 * weights).long())
    return labels, weights, index, normal(8, 3)


def test_the_classification_loss_is_that_of_the_resampled_population() -> None:
    labels, weights, index, logits = population()
    assert (torch.bincount(labels[index]).double() / len(index)).tolist() == [0.25, 0.25, 0.5]
    expected = weighted_cross_entropy(logits[index], labels[index])
    torch.testing.assert_close(weighted_cross_entropy(logits, labels, weights), expected)
    assert not torch.allclose(weighted_cross_entropy(logits, labels), expected)


def test_and_without_bias_when_batches_are_drawn_from_it() -> None:
    """The mean over all ordered pairs of samples, every one a batch of two; a loss divided by the sum of its weights
    is off."""
    labels, weights, index, logits = population()
    expected = weighted_cross_entropy(logits[index], labels[index])
    pairs = [torch.tensor([i, j]) for i in range(8) for j in range(8)]
    mean = torch.stack([weighted_cross_entropy(logits[p], labels[p], weights[p]) for p in pairs]).mean()
    torch.testing.assert_close(mean, expected)
    each = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    biased = torch.stack([(weights[p] * each[p]).sum() / weights[p].sum() for p in pairs]).mean()
    assert abs(float(biased - expected)) > 1e-3


@pytest.mark.parametrize("loss", [domain_loss, flipped_loss, uniform_loss])
def test_domain_losses_are_those_of_the_resampled_population(loss) -> None:
    _, weights, index, logits = population()
    z_s, z_t = logits[:, 0], normal(16, seed=5)
    # As many target samples as source samples in both, for the mean runs over both domains.
    found = loss(DomainLogits(z_s, z_t[:8]), DomainLogits(weights, torch.ones(8).double()))
    found = 0.5 * (found + loss(DomainLogits(z_s, z_t[8:]), DomainLogits(weights, torch.ones(8).double())))
    torch.testing.assert_close(found, loss(DomainLogits(z_s[index], z_t)))


@pytest.mark.parametrize("name", DISTANCES)
@given(counts=repeats)
def test_whole_weights_are_repeated_samples(name: str, counts: list[int]) -> None:
    source, target = normal(5, 3), normal(4, 3, seed=1) + 0.5
    weights = torch.tensor(counts).double()
    expected = DISTANCES[name](source[torch.repeat_interleave(torch.arange(5), torch.tensor(counts))], target)
    torch.testing.assert_close(DISTANCES[name](source, target, weights=weights), expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("name", DISTANCES)
def test_weights_of_one_change_nothing_and_carry_no_gradient(name: str) -> None:
    source, target = normal(6, 3).requires_grad_(), normal(5, 3, seed=1)
    ones = torch.ones(6, dtype=torch.float64, requires_grad=True)
    weighted = DISTANCES[name](source, target, weights=ones)
    torch.testing.assert_close(weighted, DISTANCES[name](source, target))
    weighted.backward()
    assert ones.grad is None
    assert source.grad is not None


def loop_mean(values: list[list[float]], weights: list[float]) -> list[float]:
    total = sum(weights)
    return [sum(w * row[k] for w, row in zip(weights, values, strict=True)) / total for k in range(len(values[0]))]


def test_slow_oracles_with_broken_weights() -> None:
    u, v, w = normal(4, 2).tolist(), normal(3, 2, seed=1).tolist(), [0.3, 1.7, 0.9, 2.2]
    total, tensors = sum(w), (torch.tensor(u).double(), torch.tensor(v).double())
    weights = torch.tensor(w).double()
    mean_u, mean_v = loop_mean(u, w), loop_mean(v, [1.0] * 3)
    expected = sum((a - b) ** 2 for a, b in zip(mean_u, mean_v, strict=True))
    assert float(linear_mmd(*tensors, weights=weights)) == pytest.approx(expected)

    def k(x: list[float], y: list[float]) -> float:
        return math.exp(-sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) / 0.7)

    inside = sum(w[i] * w[j] * k(u[i], u[j]) for i in range(4) for j in range(4)) / total**2
    inside += sum(k(a, b) for a in v for b in v) / 9
    across = sum(w[i] * k(u[i], b) for i in range(4) for b in v) / (3 * total)
    assert float(rbf_mmd(*tensors, sigma=0.7, weights=weights)) == pytest.approx(inside - 2 * across)

    def cov(x: list[list[float]], mean: list[float], own: list[float], a: int, b: int) -> float:
        terms = (s * (row[a] - mean[a]) * (row[b] - mean[b]) for s, row in zip(own, x, strict=True))
        return sum(terms) / (sum(own) - 1)

    squares = [(cov(u, mean_u, w, a, b) - cov(v, mean_v, [1.0] * 3, a, b)) ** 2 for a in range(2) for b in range(2)]
    assert float(coral(*tensors, weights=weights)) == pytest.approx(sum(squares) / 16)


def test_weighted_mmd_of_one_distribution_in_two_proportions_is_zero() -> None:
    """The point of it: the same classes in other proportions are apart, until the weights are right."""
    a, b = normal(1, 3), normal(1, 3, seed=1)
    source, target = torch.cat([a, a, a, b]), torch.cat([a, b, b, b])
    right = torch.tensor([1 / 3, 1 / 3, 1 / 3, 3.0], dtype=torch.float64)
    for distance in (linear_mmd, rbf_mmd, gaussian_mmd, median_rbf_mmd):
        assert float(distance(source, target)) > 1e-2
        assert float(distance(source, target, weights=right)) == pytest.approx(0.0, abs=1e-12)


def test_a_weight_for_each_sample_is_needed() -> None:
    with pytest.raises(DataError, match=r"\b4\b"):
        linear_mmd(normal(4, 2), normal(3, 2), weights=torch.ones(3).double())


def test_entropy_weights_with_a_prior_are_those_of_the_repeated_sample() -> None:
    probabilities = normal(4, 3).softmax(dim=1)
    counts = torch.tensor([1, 3, 0, 2])
    index = torch.repeat_interleave(torch.arange(4), counts)
    found = entropy_weights(probabilities, counts.double())
    repeated = entropy_weights(probabilities[index])
    assert float(found.sum()) == pytest.approx(6.0)
    for i in range(4):
        torch.testing.assert_close(found[i], repeated[index == i].sum())
    torch.testing.assert_close(entropy_weights(probabilities, torch.ones(4).double()), entropy_weights(probabilities))
