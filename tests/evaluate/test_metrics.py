"""Average precision against scikit-learn and against its definition; scores that do not saturate."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, precision_recall_curve

from residapt.errors import ConfigError, DataError
from residapt.evaluate.metrics import (
    MOST_POINTS,
    OneAgainstRest,
    average_precision,
    check_positive,
    choose_positive,
    detect,
    rank,
)

samples = st.lists(
    st.tuples(st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6)), st.booleans()), min_size=1, max_size=40
).filter(lambda rows: any(positive for _, positive in rows))
"""Scores with many ties, at least one positive."""


def slow_average_precision(rows: list[tuple[float, bool]]) -> Fraction:
    """The definition in exact numbers: equal scores make one threshold."""
    total = sum(positive for _, positive in rows)
    area, before = Fraction(0), 0
    for threshold in sorted({score for score, _ in rows}, reverse=True):
        taken = [positive for score, positive in rows if score >= threshold]
        area += Fraction(sum(taken) - before, total) * Fraction(sum(taken), len(taken))
        before = sum(taken)
    return area


def tensors(rows: list[tuple[float, bool]]) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor([s for s, _ in rows], dtype=torch.float64), torch.tensor([p for _, p in rows])


@given(rows=samples)
@example(rows=[(0.0, True), (0.0, False), (-0.0, False)])
def test_average_precision_is_scikit_learns_and_the_definition(rows: list[tuple[float, bool]]) -> None:
    scores, positive = tensors(rows)
    mine = average_precision(scores, positive)
    assert mine == pytest.approx(float(slow_average_precision(rows)), abs=1e-12)
    assert mine == pytest.approx(average_precision_score(positive.numpy(), scores.numpy()), abs=1e-12)


@given(rows=samples)
def test_the_curve_is_scikit_learns(rows: list[tuple[float, bool]]) -> None:
    scores, positive = tensors(rows)
    found = rank(scores, positive)
    precision, recall, thresholds = precision_recall_curve(positive.numpy(), scores.numpy())
    # Theirs goes from the lowest threshold on, and ends with a point of precision 1 and recall 0 that is made up.
    np.testing.assert_allclose(found.precision.flip(0).numpy(), precision[:-1])
    np.testing.assert_allclose(found.recall.flip(0).numpy(), recall[:-1])
    np.testing.assert_array_equal(found.scores.flip(0).numpy(), thresholds)


@given(rows=samples, seed=st.integers(0, 9))
def test_only_the_ranking_counts(rows: list[tuple[float, bool]], seed: int) -> None:
    """Neither the order of the data nor the scale of the scores changes anything."""
    scores, positive = tensors(rows)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    places = torch.tensor(sorted(set(scores.tolist())), dtype=torch.float64)
    ranks = torch.searchsorted(places, scores).double()
    assert average_precision(ranks[order], positive[order]) == average_precision(scores, positive)


def test_perfect_and_worst_rankings() -> None:
    scores = torch.arange(10, 0, -1).double()
    first, last = scores > 7, scores <= 3
    assert average_precision(scores, first) == 1.0
    assert average_precision(scores, last) == pytest.approx((1 / 8 + 2 / 9 + 3 / 10) / 3)
    assert average_precision(torch.zeros(10), last) == pytest.approx(0.3), "one tie: the share of positives"


@given(
    rows=st.lists(st.lists(st.floats(-40, 40, width=32), min_size=3, max_size=3), min_size=1, max_size=8),
    index=st.integers(0, 2),
)
def test_log_odds_against_plain_arithmetic(rows: list[list[float]], index: int) -> None:
    found = OneAgainstRest(torch.tensor(rows)).log_odds(index)
    for row, value in zip(rows, found.tolist(), strict=True):
        others = [x for place, x in enumerate(row) if place != index]
        top = max(others)
        assert value == pytest.approx(
            row[index] - top - math.log(math.fsum(math.exp(x - top) for x in others)), abs=1e-9
        )
    assert found.dtype == torch.float64


@given(
    rows=st.lists(st.lists(st.integers(-50, 50), min_size=4, max_size=4), min_size=1, max_size=6),
    shift=st.integers(-9, 9),
    classes=st.integers(2, 4),
)
def test_adding_to_a_row_changes_nothing(rows: list[list[int]], shift: int, classes: int) -> None:
    """Probabilities do not change either, so that images which the network cannot tell apart stay ties."""
    logits = torch.tensor(rows, dtype=torch.float32)[:, :classes]
    for index in range(classes):
        moved = OneAgainstRest(logits + shift).log_odds(index)
        assert torch.equal(moved, OneAgainstRest(logits).log_odds(index))


def test_confident_networks_still_rank() -> None:
    """Probabilities are exactly 1 from a margin of 37 on; margins are not."""
    logits = torch.tensor([[0.0, 60.0], [0.0, 50.0], [0.0, 55.0], [0.0, -5.0]])
    labels = torch.tensor([1, 0, 1, 0])
    assert len(set(logits.double().softmax(1)[:3, 1].tolist())) == 1
    found = detect(logits, labels, ("no", "yes"))
    assert found is not None
    assert found.average_precision == 1.0
    assert OneAgainstRest(logits).log_odds(1).tolist() == [60.0, 50.0, 55.0, -5.0]
    wide = torch.tensor([[0.0, 60.0, 1.0], [0.0, 90.0, 1.0], [-900.0, 0.0, 5.0]])
    assert OneAgainstRest(wide).log_odds(1).argsort(descending=True).tolist() == [1, 0, 2]


def test_blocks_of_rows_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.randn(23, 5, generator=torch.Generator().manual_seed(0))
    whole = OneAgainstRest(logits).log_odds(2)
    monkeypatch.setattr("residapt.evaluate.metrics.ROWS", 4)
    assert torch.equal(OneAgainstRest(logits).log_odds(2), whole)


def test_the_positive_class() -> None:
    classes = ("bird", "drone")
    assert choose_positive(torch.tensor([0, 0, 1]), classes) == 1
    assert choose_positive(torch.tensor([0, 1, 1]), classes) == 0
    assert choose_positive(torch.tensor([0, 1]), classes) == 1, "of equals the second"
    assert choose_positive(torch.tensor([0, 0, 1]), classes, "bird") == 0
    assert choose_positive(torch.tensor([0, 1]), ("a", "b", "c")) is None
    assert choose_positive(torch.tensor([0, 1]), ("a", "b", "c"), "c") == 2
    with pytest.raises(ConfigError, match=r"'dron'.*'drone'"):
        check_positive("dron", classes)


def test_detection_of_one_class_among_several() -> None:
    generator = torch.Generator().manual_seed(1)
    logits, labels = torch.randn(50, 3, generator=generator), torch.randint(0, 3, (50,), generator=generator)
    found = detect(logits, labels, ("a", "b", "c"), "b")
    assert found is not None
    share = logits.double().softmax(1)[:, 1]
    assert found.average_precision == pytest.approx(average_precision_score((labels == 1).numpy(), share.numpy()))
    assert found.positives == int((labels == 1).sum())
    assert found.positives + found.negatives == 50
    for point in found.curve:
        taken = share >= point.threshold * (1 - 1e-9)
        assert point.precision == pytest.approx(float((labels[taken] == 1).double().mean()))
        assert point.recall == pytest.approx(float((labels[taken] == 1).sum()) / found.positives)
    assert found.curve[-1].recall == 1.0
    assert detect(logits, labels, ("a", "b", "c")) is None
    assert detect(logits[:, :2], torch.ones(50, dtype=torch.long), ("a", "b")) is None, "only one kind is there"


def test_a_long_curve_is_thinned_out_evenly_in_recall() -> None:
    generator = torch.Generator().manual_seed(2)
    labels = (torch.rand(5000, generator=generator) < 0.1).long()
    margin = 2 * labels + torch.randn(5000, generator=generator)
    found = detect(torch.stack([-margin, margin], 1), labels, ("no", "yes"))
    assert found is not None
    assert 100 < len(found.curve) <= MOST_POINTS
    recalls = [0.0, *(point.recall for point in found.curve)]
    assert recalls == sorted(recalls)
    assert max(b - a for a, b in itertools.pairwise(recalls)) < 0.02
    assert found.curve[-1].precision == pytest.approx(float(labels.double().mean())), "the end, where all is found"


def test_what_cannot_be_ranked_is_refused() -> None:
    with pytest.raises(DataError, match="NaN"):
        rank(torch.tensor([0.0, math.nan]), torch.tensor([True, False]))
    with pytest.raises(DataError, match="no positive image"):
        rank(torch.tensor([0.0, 1.0]), torch.tensor([False, False]))
