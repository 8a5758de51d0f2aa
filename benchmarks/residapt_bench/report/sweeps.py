"""Accuracy as a function of the two weights of RPT, and the runs of DANN that it is held against; from records only."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from residapt_bench.budget import adaptation_steps

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
    """Mean accuracy of DANN with the same seeds and number of steps."""


def sweeps_of(records: Sequence[Record]) -> Iterator[Sweep]:
    """Those of the two sweeps that have runs; the unchanged runs of the same seeds and length belong to both."""
    for note, (heading, value_of) in SWEEPS.items():
        swept = [r for r in records if r["plan"]["note"] == note]
        starts = {_start(r["plan"]) for r in swept}
        rpt, dann = (
            [r for r in records if _is_plain(r["plan"], method) and _start(r["plan"]) in starts]
            for method in ("rpt", "dann_flip")
        )
        runs = [r for r in (*swept, *rpt) if value_of(r["plan"]) > 0]
        points = sorted((value_of(r["plan"]), r["accuracy"]["target_test"]) for r in runs)
        if points:
            level = statistics.fmean(r["accuracy"]["target_test"] for r in dann) if dann else None
            yield Sweep(heading, points, level)


def _start(plan: Record) -> tuple[int, int]:
    """Seed and length: what runs must share to be held against each other."""
    return plan["seed"], adaptation_steps(plan)


def _is_plain(plan: Record, method: str) -> bool:
    wanted = {"method": method, "recipe": "common", "note": "", "varied": "all"}
    return all(plan[name] == value for name, value in wanted.items())
