"""Accuracy as a function of the two weights of RPT, and the runs of DANN that it is held against; from records only."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from residapt.bench.budget import adaptation_steps

Record = dict[str, Any]
SWEEPS: dict[str, tuple[str, Callable[[Record], float]]] = {
    "sweep stream_weight": ("weight of the stream loss, λs", lambda plan: float(plan["settings"]["stream_weight"])),
    "sweep rank.weight": ("weight of the rank penalty, λr", lambda plan: float(plan["settings"]["rank"]["weight"])),
}
"""By the note of their runs: what is swept, and its value in a plan."""


@dataclass(frozen=True)
class Sweep:
    """One of the two weights."""

    heading: str
    points: list[tuple[float, float]]
    """Weight and accuracy, in order; a weight of 0 has no place on a logarithmic axis and is left out."""
    dann: float | None
    """Mean accuracy of DANN at the same number of steps."""


def sweeps_of(records: Sequence[Record]) -> Iterator[Sweep]:
    """Those of the two sweeps that have runs."""
    for note, (heading, value_of) in SWEEPS.items():
        runs = [r for r in records if r["plan"]["note"] == note and value_of(r["plan"]) > 0]
        points = sorted((value_of(r["plan"]), r["accuracy"]["target_test"]) for r in runs)
        budgets = {adaptation_steps(r["plan"]) for r in runs}
        dann = [r["accuracy"]["target_test"] for r in records if _is_plain_dann(r["plan"], budgets)]
        if points:
            yield Sweep(heading, points, statistics.fmean(dann) if dann else None)


def _is_plain_dann(plan: Record, budgets: set[int]) -> bool:
    unchanged = (plan["method"], plan["recipe"], plan["note"]) == ("dann_flip", "common", "")
    return unchanged and adaptation_steps(plan) in budgets
