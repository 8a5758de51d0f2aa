"""A prior that is used as far as its own uncertainty allows: by simulation of label shift, kept and violated."""

from __future__ import annotations

import math
from statistics import mean
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from residapt.methods.config import PriorConfig
from residapt.methods.extras.label_shift import bbse, bounded_prior, prediction_moments, prior_doubt
from residapt.methods.extras.prior import TargetPrior

shares = st.lists(st.floats(0.01, 1), min_size=4, max_size=4)


class Errors(NamedTuple):
    """Total variation from the true frequencies: of the start, of the plain estimate, of the bounded one."""

    start: float
    plain: float
    bounded: float
    doubt: float


def distance(p: Tensor, q: Tensor) -> float:
    return 0.5 * float((p - q).abs().sum())


def simulate(classes: int, separation: float, true: Tensor, samples: int, seed: int, drift: float = 0.0) -> Errors:
    """Calibrated predictions of normal features; ``drift`` biases those of the target, classes then look different."""
    generator = torch.Generator().manual_seed(seed)

    def predictions(labels: Tensor, bias: Tensor) -> Tensor:
        features = torch.randn(len(labels), classes, generator=generator, dtype=torch.float64)
        features[torch.arange(len(labels)), labels] += separation
        return (separation * features + bias).softmax(dim=1)

    source, target = torch.arange(samples) % classes, torch.multinomial(true, samples, True, generator=generator)
    bias = drift * torch.randn(classes, generator=generator, dtype=torch.float64)
    seen, moments = prediction_moments(predictions(source, 0 * bias)), prediction_moments(predictions(target, bias))
    by_label = torch.stack([seen[source == label].mean(0) for label in range(classes)])
    estimate = bbse(by_label[:, :classes].T / classes, moments[:, :classes], max_condition=100)
    counts = torch.bincount(source, minlength=classes)
    doubt = prior_doubt(
        by_label, moments.mean(0), estimate, source_samples=counts, target_samples=samples, max_condition=100
    )
    start = torch.full_like(true, 1 / classes)
    bounded = bounded_prior(start, estimate, doubt.total)
    return Errors(distance(start, true), distance(estimate, true), distance(bounded, true), doubt.total)


def averaged(*arguments: object, **settings: float) -> Errors:
    runs = [simulate(*arguments, seed=seed, **settings) for seed in range(12)]  # type: ignore[arg-type]
    return Errors(*(mean(values) for values in zip(*runs, strict=True)))


def skewed(classes: int) -> Tensor:
    ratios = torch.linspace(1, 6, classes, dtype=torch.float64)
    return ratios / ratios.sum()


@pytest.mark.parametrize("samples", [300, 3000])
@pytest.mark.parametrize("separation", [0.5, 1.5, 3.0, 5.0])
@pytest.mark.parametrize("classes", [2, 10])
def test_with_equal_frequencies_it_stays_where_it_started(classes: int, separation: float, samples: int) -> None:
    """From a classifier that hardly guesses (0.5) to one that is always right (5)."""
    flat = torch.full((classes,), 1 / classes, dtype=torch.float64)
    found = averaged(classes, separation, flat, samples)
    assert found.bounded <= 0.005
    assert found.plain >= 3 * found.bounded, "the plain estimate must err for this to mean anything"


@pytest.mark.parametrize("samples", [300, 3000])
@pytest.mark.parametrize("separation", [0.5, 1.5, 3.0, 5.0])
@pytest.mark.parametrize("classes", [2, 10])
def test_with_other_frequencies_it_is_never_worse_than_the_start(classes: int, separation: float, samples: int) -> None:
    found = averaged(classes, separation, skewed(classes), samples)
    assert found.bounded <= found.start + 0.01


@pytest.mark.parametrize(("classes", "separation"), [(2, 1.5), (2, 3.0), (10, 3.0), (10, 5.0)])
def test_a_large_shift_seen_by_a_good_classifier_is_found_as_by_the_plain_estimate(
    classes: int, separation: float
) -> None:
    one = torch.full((classes,), 0.2 / (classes - 1), dtype=torch.float64)
    one[0] = 0.8
    found = averaged(classes, separation, one, 3000)
    assert found.start > 0.25
    assert found.bounded <= found.plain + 0.01


@pytest.mark.parametrize("separation", [3.0, 5.0])
def test_where_classes_look_different_in_the_target_the_error_is_held_back(separation: float) -> None:
    """No estimator is right there; predictions that are less sure than label shift explains give it away."""
    flat = torch.full((10,), 0.1, dtype=torch.float64)
    for drift, share in ((0.7, 0.5), (2.0, 0.9)):  # the further off, the surer of its errors
        found = averaged(10, separation, flat, 3000, drift=drift)
        assert found.plain > 0.015
        assert found.bounded <= share * found.plain
        assert found.doubt > averaged(10, separation, flat, 3000).doubt


def test_doubt_from_sampling_is_the_spread_of_the_estimates() -> None:
    """Against a simulation: twice the expected error of unbounded estimates, within a third of it."""
    for classes, separation, samples in ((3, 2.0, 400), (3, 3.0, 3000)):
        flat = torch.full((classes,), 1 / classes, dtype=torch.float64)
        runs = [simulate(classes, separation, flat, samples, seed) for seed in range(60)]
        twice = 2 * mean(run.plain for run in runs)
        # Probabilities vary less than predicted classes do, for which the formula is, so it may be too careful.
        assert 0.67 * twice <= mean(run.doubt for run in runs) <= 2.0 * twice


@given(first=shares, second=shares, doubt=st.floats(0, 2))
def test_the_bounded_prior_lies_between_the_start_and_the_estimate(
    first: list[float], second: list[float], doubt: float
) -> None:
    start, estimate = (torch.tensor(values, dtype=torch.float64) / sum(values) for values in (first, second))
    found, moved = bounded_prior(start, estimate, doubt), distance(start, estimate)
    assert float(found.sum()) == pytest.approx(1.0)
    assert distance(start, found) + distance(found, estimate) == pytest.approx(moved, abs=1e-9)
    if doubt >= moved:
        assert torch.equal(found, start)
    else:
        assert distance(found, estimate) == pytest.approx(doubt**2 / moved, rel=1e-6, abs=1e-9)
    torch.testing.assert_close(bounded_prior(start, estimate, 0.0), estimate)


def test_moments_are_probabilities_predicted_classes_and_their_expected_errors() -> None:
    p = torch.tensor([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]], dtype=torch.float64)
    assert prediction_moments(p)[:, :3].tolist() == p.tolist()
    assert prediction_moments(p)[:, 3:6].tolist() == [[1, 0, 0], [0, 0, 1]]
    assert prediction_moments(p)[:, 6:].flatten().tolist() == pytest.approx([0.3, 0, 0, 0, 0, 0.6])


def tracked(shift: float, sharp: float = 1.0, steps: int = 40, **settings: object) -> TargetPrior:
    """A run whose target has flat frequencies but biased features; its classifier grows ``sharp`` on the way."""
    config = PriorConfig.parse({"kind": "estimated", "smoothing": 0.0, "decay": 0.9, **settings})
    tracker = TargetPrior(config, torch.full((4,), 0.25, dtype=torch.float64))
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(256) % 4
    for step in range(steps):
        logits = [3.0 * torch.randn(256, 4, generator=generator, dtype=torch.float64) for _ in range(2)]
        for one in logits:
            one[torch.arange(256), labels] += 9.0
        target = logits[1] + shift * torch.tensor([1.5, 0.5, 0.0, -2.0], dtype=torch.float64)
        tracker.observe(logits[0], labels, target * (1 + (sharp - 1) * step / steps))
        tracker.refresh()
    return tracker


def test_a_network_that_becomes_sure_of_its_errors_does_not_free_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    cautious = tracked(1.0, 8.0)
    monkeypatch.setattr(PriorConfig, "cautious", False)
    plain = tracked(1.0, 8.0)
    assert plain.moved > 0.02
    assert cautious.moved < 0.8 * plain.moved


def test_a_run_without_shift_stays_and_tells_its_doubt() -> None:
    tracker = tracked(0.0)
    assert tracker.moved <= 0.002
    record = tracker.record()
    assert 0 < record["doubt"] < 0.2
    assert record["distance"] >= 0
    assert math.isclose(float(tracker.target.sum()), 1.0, rel_tol=1e-9)
