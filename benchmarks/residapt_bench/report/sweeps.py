"""Accuracy as a function of the two weights of RPT, beside the runs of DANN; from records only."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from residapt_bench.plan import RecordedPlan
from residapt_bench.record import Record

SWEEPS = {
    "stream_weight": "weight of the stream loss, λs",
    "rank.weight": "weight of the rank penalty, λr",
}
"""Settings that are swept, and their headings."""


@dataclass(frozen=True)
class Sweep:
    """One of the two weights."""

    heading: str
    points: list[tuple[float, float]]
    """Weight and accuracy, in order; a weight of 0 has no place on a logarithmic axis and is left out."""
    dann: float | None
    """Mean accuracy of DANN with the same seeds and number of steps."""


def sweeps_of(records: Sequence[Record]) -> Iterator[Sweep]:
    """Those of the two sweeps that have runs; the unchanged runs of the same seeds and length belong to both."""
    for key, heading in SWEEPS.items():
        swept = [r for r in records if r.plan.swept == key]
        starts = {_start(r.plan) for r in swept}
        rpt, dann = (
            [r for r in records if _is_plain(r.plan, method) and _start(r.plan) in starts]
            for method in ("rpt", "dann_flip")
        )
        runs = [r for r in (*swept, *rpt) if float(r.plan.setting(key)) > 0]
        points = sorted((float(r.plan.setting(key)), r.target) for r in runs)
        if points:
            level = statistics.fmean(r.target for r in dann) if dann else None
            yield Sweep(heading, points, level)


def _start(plan: RecordedPlan) -> tuple[int, int]:
    """Seed and length: what runs must share to be compared."""
    return plan.seed, plan.steps


def _is_plain(plan: RecordedPlan, method: str) -> bool:
    return (plan.method, plan.recipe, plan.note, plan.varied) == (method, "common", "", "all")
