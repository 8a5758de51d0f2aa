from __future__ import annotations

from typing import Any

import pytest

from bench_support.records import digit_record
from residapt_bench.plan import DigitSetup, SourceTraining
from residapt_bench.record import Record
from residapt_bench.report.guard_check import Outcome, guard_totals, judge, outcomes_of, wilson

NEUTRAL = {
    "source_accuracy": (0.9, 0.9),
    "class_ami": (0.5, 0.5),
    "anchored_ami": (0.5, 0.5),
    "infomax": (1.0, 1.0),
    "sure_agreement": (1.0, 1.0),
    "frequency_shift": (0.0, 0.0),
    "lost_mass": (0.0, 0.0),
    "renamed_classes": (0.0, 0.0),
}
WORSE = {**NEUTRAL, "source_accuracy": (0.9, 0.5)}


def record(
    method: str, accuracy: float, votes: dict[str, Any] | None, seed: int = 0, steps: int = 10, **more: Any
) -> Record:
    source = SourceTraining(steps=steps, seed=seed)
    return digit_record(method, accuracy, seed=seed, source=source, label_free=votes or {}, **more)


@pytest.mark.parametrize(
    ("accuracy", "votes", "right"),
    [(40.0, WORSE, True), (40.0, NEUTRAL, False), (70.0, WORSE, False), (70.0, NEUTRAL, True), (63.0, WORSE, None)],
)
def test_clear_losses_must_be_rejected_and_clear_gains_must_not(
    accuracy: float, votes: dict[str, Any], right: bool | None
):
    (found,) = judge([record("source_only", 60.0, NEUTRAL), record("rpt", accuracy, votes)])
    assert found.right is right


def test_runs_without_a_source_run_of_their_own_start_or_without_measurements_are_left_out():
    records = [
        record("source_only", 60.0, NEUTRAL),
        record("rpt", 70.0, NEUTRAL, seed=1),
        record("rpt", 70.0, None),
        record("dann", 70.0, NEUTRAL, steps=0),
        record("source_only", 10.0, NEUTRAL, steps=0),
        record("coral", 70.0, NEUTRAL, setup=DigitSetup(pixels="[0, 1]")),
    ]
    assert judge(records) == []


def test_a_run_with_another_precision_has_another_source_network():
    source = record("source_only", 60.0, NEUTRAL)
    assert [item.change for item in judge([source, record("rpt", 70.0, NEUTRAL)])] == [10.0]
    assert judge([source, record("rpt", 70.0, NEUTRAL, precision="bf16")]) == []


def test_totals_count_mistakes_of_both_kinds():
    records = [record("source_only", 60.0, NEUTRAL)]
    records += [record("rpt", 40.0, WORSE), record("dann", 41.0, NEUTRAL), record("mmd", 80.0, WORSE)]
    text = guard_totals(outcomes_of(judge(records)))
    assert "lost more than 5 points: 2 runs, not rejected 1 (50.0%" in text
    assert "gained more than 5 points: 1 runs, rejected 1 (100.0%" in text
    assert "gained more than 10 points: 1 runs, helped said of 0 (0.0%" in text


def test_runs_on_the_same_domains_count_as_far_as_they_are_independent():
    """Twenty runs of two pairs, one of which is always wrong: no better known than two runs are."""
    alike = [Outcome(pair, -9.0, None if pair == "a" else False) for pair in "ab" for _ in range(10)]
    low, high = (f"{bound:.1%}" for bound in wilson(0.5, 2))
    assert f"not rejected 10 (50.0%, {low} to {high}, 2 pairs of domains)" in guard_totals(alike)
    mixed = [Outcome(f"pair {number % 10}", -9.0, None if number % 2 else False) for number in range(20)]
    spread = [Outcome(one.group, one.change, None if number < 10 else False) for number, one in enumerate(mixed)]
    low, high = (f"{bound:.1%}" for bound in wilson(0.5, 20))
    assert f"{low} to {high}" in guard_totals(spread)  # each pair is wrong once and right once


def test_wilson_is_where_the_normal_approximation_of_the_hypothesis_meets_the_share():
    for share, count in ((0.0, 12), (0.3, 40), (1.0, 5)):
        for bound in wilson(share, count):
            if 0 < bound < 1:
                assert abs(share - bound) == pytest.approx(1.96 * (bound * (1 - bound) / count) ** 0.5)
