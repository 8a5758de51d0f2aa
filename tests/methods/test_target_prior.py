"""The target's class frequencies along a run: found, smoothed, refused when degenerate, kept in the state."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from residapt.data.domains import DomainPair, Labelled, TensorImages
from residapt.errors import ConfigError
from residapt.methods.config import PriorConfig
from residapt.methods.extras.label_shift import effective_share, why_degenerate
from residapt.methods.extras.prior import LEAST, TargetPrior, target_prior

SOURCE, TARGET = (0.5, 0.3, 0.2), (0.15, 0.25, 0.6)
SURE = torch.tensor([[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.1, 0.1, 0.8]], dtype=torch.float64)
"""p(prediction | class), a row for each class: a classifier that errs."""


@pytest.fixture(autouse=True)
def _the_estimate_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a floor below it nor caution about it."""
    monkeypatch.setattr(PriorConfig, "floor", 0.0)
    monkeypatch.setattr(PriorConfig, "cautious", False)


def made(prior: tuple[float, ...] = SOURCE, **settings: object) -> TargetPrior:
    config = PriorConfig.parse({"kind": "estimated", "smoothing": 0.0, **settings})
    return TargetPrior(config, torch.tensor(prior, dtype=torch.float64))


def show(tracker: TargetPrior, target: tuple[float, ...] = TARGET, table: Tensor = SURE, count: int = 2000) -> None:
    """A whole population of each domain, as the classifier sees it: sure predictions with its errors."""

    def predictions(prior: tuple[float, ...]) -> tuple[Tensor, Tensor]:
        joint = torch.tensor(prior, dtype=torch.float64)[:, None] * table * count
        cells = torch.cartesian_prod(torch.arange(3), torch.arange(3))
        rows = torch.repeat_interleave(cells, joint.round().long().flatten(), dim=0)
        return rows[:, 0], 40.0 * torch.nn.functional.one_hot(rows[:, 1], 3).double()

    labels, source_logits = predictions(SOURCE)
    tracker.observe(source_logits, labels, predictions(target)[1])


def test_balanced_weights_give_flat_weighted_class_frequencies() -> None:
    labels = torch.tensor([0] * 50 + [1] * 30 + [2] * 20)
    pair = DomainPair(Labelled(TensorImages(torch.zeros(100, 1, 2, 2)), labels), TensorImages(torch.zeros(9, 1, 2, 2)))
    tracker = target_prior(PriorConfig(kind="balanced"), pair, 3, torch.zeros(1))
    assert tracker is not None
    weights = tracker.weights(labels)
    assert torch.bincount(labels, weights).tolist() == pytest.approx([100 / 3] * 3, rel=1e-6)
    assert float(weights.mean()) == pytest.approx(1.0, rel=1e-6)
    assert tracker.record() == {"kind": "balanced", "source": [0.5, 0.3, 0.2], "target": [0.33333] * 3}
    tracker.observe(torch.zeros(2, 3), labels[:2], torch.zeros(2, 3))
    assert tracker.final_notes() == []


def test_given_frequencies_are_what_the_source_is_weighted_to() -> None:
    for kind in ("given", "estimated"):
        tracker = made(kind=kind, start=[0.1, 0.2, 0.7])
        weighted = torch.tensor(SOURCE).double() * tracker.weights(torch.arange(3))
        assert weighted.tolist() == pytest.approx([0.1, 0.2, 0.7])
    fixed, moving = made(kind="given", start=[0.1, 0.2, 0.7]), made(start=[0.1, 0.2, 0.7], smoothing=0.5)
    show(fixed)
    assert fixed.record() == {"kind": "given", "source": list(SOURCE), "target": [0.1, 0.2, 0.7]}
    show(moving)
    moving.refresh()
    half = [(start + truth) / 2 for start, truth in zip((0.1, 0.2, 0.7), TARGET, strict=True)]
    assert moving.target.tolist() == pytest.approx(half, abs=1e-6)


@pytest.mark.parametrize("start", [[0.5, 0.5], [0.5, 0.5, 0.0], [0.5, 0.5, 0.5], []])
def test_frequencies_that_are_none_are_refused(start: list[float]) -> None:
    with pytest.raises(ConfigError, match=r"\b3\b"):
        made(kind="given", start=start)
    with pytest.raises(ConfigError, match=r"prior\.start.*'flat'"):
        made(kind="given")


def test_as_is_needs_no_tracker_and_balanced_batches_are_flat_already() -> None:
    labels = torch.tensor([0, 0, 0, 1])
    images = TensorImages(torch.zeros(4, 1, 2, 2))
    pair = DomainPair(Labelled(images, labels), images)
    assert target_prior(PriorConfig(), pair, 2, torch.zeros(1)) is None
    flat = target_prior(
        PriorConfig(kind="balanced"), DomainPair(pair.source, images, balance="classes"), 2, torch.zeros(1)
    )
    assert flat is not None
    assert flat.weights(labels).tolist() == [1.0] * 4
    with pytest.raises(ConfigError, match=r"\b2\b.*\b3\b"):
        target_prior(PriorConfig(kind="balanced"), pair, 3, torch.zeros(1))


def test_a_known_label_shift_is_found() -> None:
    tracker = made()
    assert tracker.target.tolist() == pytest.approx([1 / 3] * 3)
    show(tracker)
    assert tracker.refresh() is None
    assert tracker.target.tolist() == pytest.approx(TARGET, abs=1e-6)
    weighted = torch.tensor(SOURCE).double() * tracker.weights(torch.arange(3))
    assert weighted.tolist() == pytest.approx(TARGET, abs=1e-6)
    assert float(tracker.distance) == pytest.approx(0.4)


def test_estimates_are_smoothed_and_old_predictions_fade() -> None:
    tracker = made(smoothing=0.75, start="source", decay=0.5)
    show(tracker)
    tracker.refresh()
    expected = [0.75 * s + 0.25 * t for s, t in zip(SOURCE, TARGET, strict=True)]
    assert tracker.target.tolist() == pytest.approx(expected, abs=1e-6)
    first = tracker.sums.clone()
    show(tracker, target=SOURCE)
    assert float(tracker.sums[:-1].sum()) == pytest.approx(1.5 * float(first[:-1].sum()))
    half = (tracker.sums[-1] - 0.5 * first[-1])[:3] / 2000
    assert half.tolist() == pytest.approx((torch.tensor(SOURCE).double() @ SURE).tolist(), abs=1e-6)


def test_nothing_is_estimated_before_every_class_was_seen() -> None:
    tracker = made()
    tracker.observe(torch.zeros(20, 3).double(), torch.zeros(20, dtype=torch.long), torch.zeros(20, 3).double())
    before = tracker.target.clone()
    assert tracker.refresh() is None
    assert torch.equal(tracker.target, before)
    assert tracker.record()["estimates"] == 0
    assert "never estimated" in tracker.final_notes()[0]
    tracker.observe(torch.zeros(10, 3).double(), torch.arange(10) % 2 + 1, torch.zeros(20, 3).double())
    assert float(tracker.sums[:-1, :3].sum(dim=1).min()) >= LEAST


def test_a_degenerate_estimate_is_refused_and_the_last_one_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PriorConfig, "max_condition", 20.0)
    tracker = made()
    show(tracker)
    tracker.refresh()
    kept = tracker.target.clone()
    blind = torch.full((3, 3), 1 / 3, dtype=torch.float64) + 0.01 * torch.eye(3, dtype=torch.float64)
    tracker.sums.zero_()
    show(tracker, table=blind / blind.sum(dim=1, keepdim=True), count=3000)
    reason = tracker.refresh()
    assert reason is not None
    assert "condition number" in reason
    assert torch.equal(tracker.target, kept)
    assert tracker.final_notes() == ["1 of 2 estimates of the target's class frequencies were rejected."]
    assert (tracker.record()["estimates"], tracker.record()["refused"]) == (1, 1)


def test_weights_that_rest_on_a_few_samples_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PriorConfig, "min_ess", 0.7)
    tracker = made()
    show(tracker)
    reason = tracker.refresh()
    assert reason is not None
    assert "of the source images effective" in reason
    assert tracker.target.tolist() == pytest.approx([1 / 3] * 3)


def test_effective_share_is_kishs() -> None:
    labels = torch.tensor([0] * 5 + [1] * 3 + [2] * 2)
    weights = [TARGET[k] / SOURCE[k] for k in labels.tolist()]
    kish = sum(weights) ** 2 / sum(w * w for w in weights) / 10
    assert effective_share(torch.tensor(SOURCE), torch.tensor(TARGET)) == pytest.approx(kish, rel=1e-6)
    assert effective_share(torch.tensor(SOURCE), torch.tensor(SOURCE)) == pytest.approx(1.0)
    joint = (SURE * torch.tensor(SOURCE)[:, None]).T
    limits = {"max_condition": 100.0, "min_ess": 0.1}
    assert why_degenerate(joint, torch.tensor(SOURCE), torch.tensor(TARGET), **limits) is None
    twins = joint.clone()
    twins[:, 1] = twins[:, 0]
    assert "hardly tells" in str(why_degenerate(twins, torch.tensor(SOURCE), torch.tensor(TARGET), **limits))


def test_the_state_is_complete() -> None:
    one, other = made(), made()
    show(one)
    one.refresh()
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    for tracker in (one, other):
        show(tracker, target=(0.4, 0.4, 0.2))
        tracker.refresh()
    assert torch.equal(one.target, other.target)
    assert one.record() == other.record()
