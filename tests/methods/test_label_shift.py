from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from residapt.errors import ConfigError, DataError
from residapt.methods.extras.label_shift import bbse, class_weights, floored, smooth

# p(prediction or x | y): column j is class j. In hundredths: a population is a whole number of samples.
CONDITIONAL = [[80, 10, 20], [10, 70, 20], [10, 20, 60]]
SOURCE = [5, 3, 2]
TARGET = [1, 2, 7]

positive = st.lists(st.floats(0.01, 1), min_size=3, max_size=3)


def population(prior: list[int]) -> tuple[Tensor, Tensor]:
    """(predictions, labels) of a whole population: each pair as often as it should be."""
    pairs = [(i, j) for i, j in itertools.product(range(3), range(3)) for _ in range(CONDITIONAL[i][j] * prior[j])]
    predictions, labels = torch.tensor(pairs).T
    return predictions, labels


def share(counts: list[int]) -> list[float]:
    return [c / sum(counts) for c in counts]


def posterior() -> Tensor:
    """p_s(y | x) by Bayes' rule, row x."""
    joint = torch.tensor(CONDITIONAL, dtype=torch.float64) * torch.tensor(SOURCE)
    return joint / joint.sum(dim=1, keepdim=True)


def on_simplex(prior: Tensor, smallest: float = 0.0) -> bool:
    return bool((prior >= smallest - 1e-12).all()) and abs(prior.sum().item() - 1) < 1e-9


def confusion_matrix(predictions: Tensor, labels: Tensor, classes: int) -> Tensor:
    """How often each class (columns) is predicted as each (rows); predictions are class numbers, or probabilities."""
    rows = predictions if predictions.ndim == 2 else functional.one_hot(predictions, classes)
    return rows.double().T @ functional.one_hot(labels, classes).double() / len(labels)


def test_bbse_recovers_the_prior_of_a_whole_population() -> None:
    confusion = confusion_matrix(*population(SOURCE), 3)
    result = bbse(confusion, population(TARGET)[0])
    assert result.tolist() == pytest.approx(share(TARGET), abs=1e-9)
    weights = class_weights(confusion.sum(dim=0), result)
    torch.testing.assert_close(confusion @ weights, torch.bincount(population(TARGET)[0]).double() / 1000)


def test_bbse_recovers_the_prior_from_probabilities() -> None:
    (x_s, y_s), (x_t, _) = population(SOURCE), population(TARGET)
    confusion = confusion_matrix(posterior()[x_s], y_s, 3)
    assert bbse(confusion, posterior()[x_t]).tolist() == pytest.approx(share(TARGET), abs=1e-9)


def test_without_a_shift_the_source_prior_comes_back() -> None:
    predictions, labels = population(SOURCE)
    assert bbse(confusion_matrix(predictions, labels, 3), predictions).tolist() == pytest.approx(share(SOURCE))


@given(entries=st.lists(st.floats(0, 1), min_size=9, max_size=9), q=st.lists(st.integers(0, 2), min_size=1))
def test_bbse_stays_on_the_simplex_for_any_classifier(entries: list[float], q: list[int]) -> None:
    confusion = torch.tensor(entries, dtype=torch.float64).reshape(3, 3) + 1e-6
    assert on_simplex(bbse(confusion, torch.tensor(q)), smallest=0.01 / 3)


def test_bbse_finds_the_best_point_of_the_simplex_when_the_solution_lies_outside() -> None:
    """All targets are predicted as class 0, more than any class yields: C^-1 q has negative entries."""
    confusion = confusion_matrix(*population(SOURCE), 3)
    conditional = confusion / confusion.sum(dim=0)
    q = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    assert (torch.linalg.solve(conditional, q) < 0).any()
    result = bbse(confusion, torch.zeros(5, dtype=torch.long), floor=0.0)
    best = (conditional @ result - q).square().sum().item()
    grid = [i / 40 for i in range(41)]
    for a, b in itertools.product(grid, grid):
        if a + b <= 1:
            point = torch.tensor([a, b, 1 - a - b], dtype=torch.float64)
            assert (conditional @ point - q).square().sum().item() >= best - 1e-6


def test_bbse_falls_back_to_the_source_where_the_classifier_says_nothing() -> None:
    """Classes 1 and 2 are never told apart: their sum is estimated, their ratio is the source's."""
    conditional = torch.tensor([[0.9, 0.1, 0.1], [0.05, 0.45, 0.45], [0.05, 0.45, 0.45]], dtype=torch.float64)
    source, target = torch.tensor([0.4, 0.4, 0.2]), torch.tensor([0.1, 0.3, 0.6])
    counts = (conditional @ target.double() * 10_000).round().long()
    predictions = torch.repeat_interleave(torch.arange(3), counts)
    result = bbse(conditional * source, predictions)
    assert result[0].item() == pytest.approx(0.1, abs=1e-3)
    # Nearest to the source (0.4, 0.2) among all pairs of sum 0.9: both move alike.
    assert result[1:].tolist() == pytest.approx([0.55, 0.35], abs=1e-3)


def test_bbse_is_steady_for_a_nearly_singular_confusion() -> None:
    nearly = torch.full((2, 2), 0.25, dtype=torch.float64) + 1e-7 * torch.eye(2, dtype=torch.float64)
    wild = torch.linalg.solve(nearly, torch.tensor([0.51, 0.49], dtype=torch.float64))
    assert wild.abs().max() > 1e3
    predictions = torch.tensor([0] * 51 + [1] * 49)
    assert bbse(nearly, predictions).tolist() == pytest.approx([0.5, 0.5], abs=0.02)


@given(values=st.lists(st.floats(-2, 2), min_size=1, max_size=6), floor=st.floats(0, 1))
def test_floored_lands_on_the_floored_simplex(values: list[float], floor: float) -> None:
    result = floored(torch.tensor(values), floor)
    assert on_simplex(result, smallest=floor / len(values))
    torch.testing.assert_close(floored(result, floor), result)


@given(values=positive, other=positive)
def test_floored_is_the_nearest_such_distribution(values: list[float], other: list[float]) -> None:
    prior, floor = torch.tensor(values, dtype=torch.float64), 0.3
    rival = torch.tensor([v / sum(other) for v in other], dtype=torch.float64)
    rival = 0.7 * rival + 0.1
    nearest = floored(prior, floor)
    assert (nearest - prior).norm() <= (rival - prior).norm() + 1e-9


def test_a_degenerate_estimate_is_lifted_and_a_good_one_is_kept() -> None:
    assert floored(torch.tensor([1.0, 0.0]), 0.02).tolist() == pytest.approx([0.99, 0.01])
    assert floored(torch.tensor([0.6, 0.4]), 0.02).tolist() == pytest.approx([0.6, 0.4])


@given(source=positive, target=positive)
def test_class_weights_have_mean_one_under_the_source_and_give_the_target(
    source: list[float], target: list[float]
) -> None:
    prior_s = torch.tensor(source, dtype=torch.float64)
    weights = class_weights(prior_s, torch.tensor(target))
    reweighted = weights * prior_s / prior_s.sum()
    assert reweighted.sum().item() == pytest.approx(1.0)
    assert reweighted.tolist() == pytest.approx([t / sum(target) for t in target], rel=1e-6)


@given(momentum=st.floats(0, 1))
def test_smooth_moves_towards_the_new_prior(momentum: float) -> None:
    old, new = torch.tensor([0.9, 0.1]), torch.tensor([0.2, 0.8])
    result = smooth(old, new, momentum)
    expected = [momentum * 0.9 + (1 - momentum) * 0.2, momentum * 0.1 + (1 - momentum) * 0.8]
    assert result.tolist() == pytest.approx(expected, abs=1e-6)
    assert on_simplex(result.double() / result.double().sum())
    assert math.isclose(result.sum().item(), 1.0, abs_tol=1e-6)


def test_what_cannot_be_used_is_refused() -> None:
    ones = torch.eye(2) / 2
    with pytest.raises(DataError, match="square"):
        bbse(torch.ones(2, 3), torch.tensor([0]))
    with pytest.raises(DataError, match="at least one source sample"):
        bbse(torch.tensor([[0.5, 0.0], [0.5, 0.0]]), torch.tensor([0]))
    with pytest.raises(DataError, match=r"\b2\b"):
        bbse(ones, torch.tensor([2]))
    with pytest.raises(DataError, match="softmax"):
        bbse(ones, torch.tensor([[3.0, -1.0]]))
    with pytest.raises(DataError, match="class numbers"):
        bbse(ones, torch.tensor([0.5, 0.5]))
    with pytest.raises(ConfigError, match="max_condition"):
        bbse(ones, torch.tensor([0]), max_condition=0.5)
    with pytest.raises(DataError, match="source prior"):
        class_weights(torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5]))
    with pytest.raises(DataError, match="target prior"):
        class_weights(torch.ones(2), torch.ones(3))
    with pytest.raises(ConfigError, match="momentum"):
        smooth(torch.ones(2), torch.ones(2), 1.5)
    with pytest.raises(DataError, match="classes"):
        smooth(torch.ones(2), torch.ones(3), 0.5)
    with pytest.raises(ConfigError, match="floor"):
        floored(torch.ones(2), 2.0)
