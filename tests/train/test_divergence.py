"""The detector on made-up series: what diverges is seen within 50 steps, what is only noisy is not."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from statistics import median

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from residapt.train.divergence import (
    AT_ONCE,
    CLASS_RISE,
    DOMAIN_LIMIT,
    GRADIENT,
    WINDOWS,
    Divergence,
    DivergenceDetector,
)

LOG2 = math.log(2.0)


def noise(count: int, spread: float, seed: int) -> list[float]:
    """Factors around 1: log-normal, with a heavy tail."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, generator=generator, dtype=torch.float64).mul(spread).exp().tolist()


def first_sign(classes: int, **series: Sequence[float]) -> tuple[int, Divergence] | None:
    """The first step at which something is found."""
    detector = DivergenceDetector(classes)
    for step, values in enumerate(zip(*series.values(), strict=True), start=1):
        found = detector.check(dict(zip(series, values, strict=True)))
        if found is not None:
            return step, found
    return None


@settings(deadline=None, max_examples=40)
@given(
    classes=st.sampled_from([2, 5, 10, 31, 1000]),
    seed=st.integers(0, 10_000),
    spread=st.floats(0.0, 1.0),
    end=st.floats(0.001, 0.5),
)
def test_a_healthy_run_is_left_alone_however_noisy(classes: int, seed: int, spread: float, end: float) -> None:
    """Classification falls from guessing to ``end``; the classifier is confused and swings; single spikes are wild."""
    guess, steps = math.log(classes), 600
    fall = [end * guess + (1 - end) * guess * math.exp(-step / 60) for step in range(steps)]
    tame = 0.1 + 0.15 * spread
    losses = [value * factor for value, factor in zip(fall, noise(steps, tame, seed), strict=True)]
    domain = [LOG2 * factor for factor in noise(steps, 0.2 * spread, seed + 1)]
    norms = [5.0 * factor for factor in noise(steps, spread, seed + 2)]
    for step in range(0, steps, 7):  # an odd batch now and then
        losses[step] += 2.0 * guess
        domain[step] *= 8.0
        norms[step] *= 1000.0
    assert first_sign(classes, **{"class": losses, "domain": domain, GRADIENT: norms}) is None


@settings(deadline=None, max_examples=40)
@given(
    what=st.sampled_from(["class", "domain", GRADIENT]),
    classes=st.sampled_from([2, 10, 31]),
    start=st.integers(100, 400),
    seed=st.integers(0, 10_000),
)
def test_divergence_is_seen_within_fifty_steps(what: str, classes: int, start: int, seed: int) -> None:
    """From ``start`` on one of the numbers grows by a tenth a step."""
    base = {"class": 0.1 * math.log(classes), "domain": LOG2, GRADIENT: 3.0}
    series = {
        name: [value * factor for factor in noise(600, 0.3, seed + place)]
        for place, (name, value) in enumerate(base.items())
    }
    rate = 1.3 if what == GRADIENT else 1.1
    for step in range(start, 600):
        series[what][step] *= rate ** (step - start)
    found = first_sign(classes, **series)
    assert found is not None
    step, sign = found
    assert sign.name == what
    assert start < step <= start + 50


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["class", "domain", GRADIENT])
def test_what_is_not_finite_is_seen_at_once(name: str, value: float) -> None:
    found = DivergenceDetector(10).check({"class": 0.1, "domain": 0.7, GRADIENT: 1.0, name: value})
    assert found is not None
    assert (found.name, found.gross) == (name, True)


def test_a_loss_beyond_all_measure_is_seen_at_once() -> None:
    limit = AT_ONCE * math.log(10)
    found = DivergenceDetector(10).check({"class": 1.01 * limit})
    assert found is not None
    assert found.gross
    assert DivergenceDetector(10).check({"class": 0.99 * limit}) is None


def test_the_limits_are_those_that_are_documented() -> None:
    """Medians of whole windows, against the lowest so far."""
    for limit, name, low in [(CLASS_RISE * math.log(10), "class", 0.2), (DOMAIN_LIMIT * LOG2, "domain", 0.3)]:
        edge = low + limit if name == "class" else limit
        for factor, expected in ((0.99, False), (1.01, True)):
            window = WINDOWS[name]
            series = [low] * window + [edge * factor] * window
            found = first_sign(10, **{name: series})
            assert (found is not None) == expected, (name, factor)
            if found is not None:
                step, sign = found
                assert sign.value == median(series[step - window : step])
                assert not sign.gross


def test_a_high_loss_that_falls_or_stays_is_no_divergence() -> None:
    """A new domain classifier on features of a large scale starts far above guessing."""
    assert first_sign(10, domain=[40.0 * 0.99**step for step in range(600)]) is None
    assert first_sign(10, domain=[40.0] * 600) is None
    assert first_sign(10, **{"class": [9.0] * 600}) is None


def test_a_domain_classifier_that_swings_around_guessing_is_left_alone() -> None:
    """As measured in the first hundred steps of a run on features, which then came to rest by itself."""
    swing = [0.45] * 20 + [1.7] * 20
    assert first_sign(31, domain=[0.7] * 20 + 3 * swing + [0.7] * 400) is None
    found = first_sign(31, domain=[0.7] * 20 + swing + [1.7] * 20)  # this one stays there
    assert found is not None
    assert found[1].name == "domain"


def test_the_usual_norm_is_the_geometric_mean_and_none_before_there_is_one() -> None:
    detector = DivergenceDetector(10)
    for _ in range(49):
        detector.check({GRADIENT: 7.0})
    assert detector.usual_norm is None
    detector.check({GRADIENT: 7.0})
    assert detector.usual_norm == pytest.approx(7.0)
    for number in range(2000):
        detector.check({GRADIENT: (1.0, 4.0)[number % 2]})
    assert detector.usual_norm == pytest.approx(2.0, rel=0.02)


@settings(deadline=None, max_examples=20)
@given(cut=st.integers(1, 150), seed=st.integers(0, 1000))
def test_a_detector_that_is_stored_in_between_finds_the_same(cut: int, seed: int) -> None:
    series = [[a, LOG2 * b, 3 * c] for a, b, c in zip(*(noise(160, 1.0, seed + i) for i in range(3)), strict=True)]
    rows = [dict(zip(("class", "domain", GRADIENT), row, strict=True)) for row in series]
    whole, first, second = (DivergenceDetector(2) for _ in range(3))
    expected = [whole.check(row) for row in rows]
    found = [first.check(row) for row in rows[:cut]]
    second.restore(json.loads(json.dumps(first.state())))
    found += [second.check(row) for row in rows[cut:]]
    assert found == expected
    assert second.state() == whole.state()
