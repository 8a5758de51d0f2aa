from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from residapt.train.symptoms import (
    LOG2,
    HealthConfig,
    all_shared,
    barrier,
    effective_classes,
    few_classes,
    perfect_adversary,
    prior_drift,
    source_falling,
    stuck_adversary,
    total_variation,
)

CONFIG = HealthConfig()
NAMES = ("a", "b", "c", "d")
FLAT = torch.full((4,), 0.25)

weights = st.lists(st.floats(0.01, 1.0), min_size=4, max_size=4)


def frequencies(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64) / sum(values)


@given(weights, weights)
def test_distances_between_frequencies(first: list[float], second: list[float]) -> None:
    p, q = frequencies(first), frequencies(second)
    slow = sum(max(a - b, 0.0) for a, b in zip(p.tolist(), q.tolist(), strict=True))
    assert total_variation(p, q) == pytest.approx(slow)
    assert total_variation(p, q) == total_variation(q, p)
    slow = math.exp(-sum(a * math.log(a) for a in p.tolist()))
    assert effective_classes(p) == pytest.approx(slow)
    assert 1 <= effective_classes(p) <= 4 + 1e-9


def test_effective_classes_of_equal_shares() -> None:
    for used in (1, 2, 4):
        shares = torch.tensor([1 / used] * used + [0.0] * (4 - used))
        assert effective_classes(shares) == pytest.approx(used)


def test_a_domain_classifier_that_once_knew_something_is_not_stuck() -> None:
    assert stuck_adversary([LOG2] * 10, False, CONFIG)
    assert not stuck_adversary([LOG2] * 9, False, CONFIG)
    assert not stuck_adversary([0.5, *[LOG2] * 20], False, CONFIG)
    assert not stuck_adversary([0.66] * 20, False, CONFIG)
    assert not stuck_adversary([0.9 - 0.01 * step for step in range(10)], False, CONFIG)
    assert stuck_adversary([0.72, 0.70, 0.74, 0.70, 0.71, 0.73, 0.71, 0.72, 0.70, 0.72], False, CONFIG)
    assert stuck_adversary([0.4] * 10, True, CONFIG)


def test_a_domain_classifier_must_be_right_for_long() -> None:
    assert perfect_adversary([0.5] * 5 + [0.99] * 10, CONFIG)
    assert not perfect_adversary([0.99] * 9, CONFIG)
    assert not perfect_adversary([0.99] * 9 + [0.8], CONFIG)


def test_collapse_is_measured_against_the_source_network() -> None:
    one = torch.tensor([0.97, 0.01, 0.01, 0.01])
    found = few_classes(one, FLAT, NAMES, CONFIG)
    assert found
    assert found.severity == pytest.approx(4 / effective_classes(one))
    assert not few_classes(one, one, NAMES, CONFIG)


def test_drift_needs_distance_from_both_references() -> None:
    moved = torch.tensor([0.7, 0.1, 0.1, 0.1])
    assert prior_drift(moved, FLAT, FLAT, NAMES, CONFIG)
    assert not prior_drift(moved, FLAT, moved, NAMES, CONFIG)
    assert not prior_drift(moved, moved, FLAT, NAMES, CONFIG)


@pytest.mark.parametrize(
    ("energies", "word"),
    [
        ([1.0, 20.0, 30.0, 40.0], "far above 1"),
        ([0.05] * 3, "far below 1"),
        ([20.0, 1.0, 20.0], None),
        ([20.0] * 2, None),
    ],
)
def test_the_barrier_must_stay_broken(energies: list[float], word: str | None) -> None:
    found = barrier(energies, CONFIG)
    assert (found.text if found else None) is None if word is None else found is not None and word in found.text


def test_severity_of_the_barrier_grows_both_ways() -> None:
    high, higher = barrier([20.0] * 3, CONFIG), barrier([400.0] * 3, CONFIG)
    low, zero = barrier([0.05] * 3, CONFIG), barrier([0.0] * 3, CONFIG)
    assert high
    assert higher
    assert low
    assert zero
    assert high.severity == pytest.approx(low.severity)
    assert high.severity < higher.severity < zero.severity


def test_ranks_are_zero_only_when_all_are() -> None:
    assert all_shared({"a": (0, 0), "b": (0, 0)})
    assert not all_shared({"a": (0, 0), "b": (1, 2)})
    assert not all_shared({})


def test_source_may_fall_a_little() -> None:
    assert not source_falling(0.85, 0.9, CONFIG)
    found = source_falling(0.5, 0.9, CONFIG)
    assert found
    assert found.severity == pytest.approx(0.4)
