from __future__ import annotations

from typing import Any

import pytest

from bench_support.records import digit_record
from residapt_bench.plan import DigitSetup, SourceTraining
from residapt_bench.record import Record
from residapt_bench.report.guard_check import guard_totals, judge

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
    assert guard_totals(judge(records)) == (
        "3 runs. Lost more than 5 points: 2, of which 1 were not rejected. Gained more than 5: 1, of which 1 were "
        "rejected."
    )
