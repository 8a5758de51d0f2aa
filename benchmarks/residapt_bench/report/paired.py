"""Two methods over the same seeds: the mean difference and its confidence interval (paired t)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from scipy import stats

from residapt.errors import DataError
from residapt_bench.record import Record


@dataclass(frozen=True)
class PairedDifference:
    """First minus second, in points."""

    first: str
    second: str
    differences: dict[int, float]
    """By seed."""

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return statistics.fmean(self.differences.values())

    def interval(self, confidence: float = 0.95) -> tuple[float, float] | None:
        """Mean ± t quantile x standard error; None for a single seed."""
        n = len(self.differences)
        if n < 2:
            return None
        error = statistics.stdev(self.differences.values()) / math.sqrt(n)
        half = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * error
        return self.mean - half, self.mean + half

    def text(self) -> str:
        """One line for people."""
        limits = self.interval()
        between = "" if limits is None else f", 95 % interval {limits[0]:+.2f} to {limits[1]:+.2f}"
        each = ", ".join(f"{seed}: {value:+.1f}" for seed, value in sorted(self.differences.items()))
        count = len(self.differences)
        return f"{self.first} minus {self.second}: {self.mean:+.2f} points over {count} seeds{between} ({each})"


def paired_difference(
    records: Iterable[Record],
    first: str,
    second: str,
    *,
    task: str | None = None,
    arch: str | None = None,
    note: str = "",
    recipe: str = "common",
    recipe_of_second: str = "",
    steps: int | None = None,
    at: int | None = None,
    varied: str = "all",
) -> PairedDifference:
    """Over the seeds that both methods have; runs that should have had the same start and did not are no pair.

    ``varied`` says what a seed changed: everything (warm start, start, order), or the order alone.

    ``:`` behind a method's name introduces a note of its runs instead of ``note`` (``rpt:by reversal``). ``recipe`` is
    that of both unless the second has another. Only runs of the same length are paired; ``steps`` says of which where
    there are several, ``task`` of which pair of domains. The source network itself is compared with any.
    ``at`` compares the runs after so many of their steps, where their curves have that point, not at their end.
    """
    chosen = [
        record
        for record in records
        if arch in (None, record.plan.arch) and task in (None, record.plan.task) and record.plan.varied == varied
    ]
    one = _runs_of(chosen, *_name_and_note(first, note), recipe)
    other = _runs_of(chosen, *_name_and_note(second, note), recipe_of_second or recipe)
    for option in ("task", "arch"):
        names = {getattr(record.plan, option) for record in (*one, *other)}
        if len(names) > 1:
            raise DataError(f"the records have runs of {', '.join(sorted(names))}: say which with --{option}.")
    found = _differences(_scores(one, at), _scores(other, at), steps)
    if len(found) > 1:
        lengths = ", ".join(map(str, sorted(found)))
        raise DataError(f"'{first}' and '{second}' have runs of {lengths} steps: say which with --steps.")
    for differences in found.values():
        if differences:
            return PairedDifference(first, second, differences)
    raise DataError(
        f"no seed has a run of both '{first}' and '{second}' from the same source network"
        + (f" with note '{note}'" if note else "")
        + (f" and {steps} steps." if steps is not None else ".")
    )


class _Run(NamedTuple):
    """What is paired."""

    accuracy: float
    start: tuple[object, ...]
    """How its source network was trained."""
    network: str | None
    """Hash of the weights that came of it."""


Scores = dict[int, dict[int, _Run]]
"""By number of steps and seed."""


def _runs_of(records: Iterable[Record], name: str, note: str, recipe: str) -> list[Record]:
    asked = (name, note, recipe)
    return [run for run in records if (run.plan.method, run.plan.note, run.plan.recipe) == asked]


def _scores(records: Iterable[Record], at: int | None) -> Scores:
    scores: Scores = {}
    for record in records:
        score = _score(record, at)
        if score is not None:
            plan = record.plan
            start = (plan.recipe, plan.source, plan.standardise, plan.precision)
            scores.setdefault(plan.steps, {})[plan.seed] = _Run(score, start, record.source_sha256)
    return scores


def _differences(one: Scores, other: Scores, steps: int | None) -> dict[int, dict[int, float]]:
    """First minus second by length and seed; the source network itself, of 0 steps, is compared with any length."""
    pairs = {max(a, b): (a, b) for a in one for b in other if a == b or 0 in (a, b)}
    return {
        length: {
            seed: one[a][seed].accuracy - other[b][seed].accuracy
            for seed in sorted(one[a].keys() & other[b].keys())
            if _same_start(one[a][seed], other[b][seed])
        }
        for length, (a, b) in pairs.items()
        if steps in (None, length)
    }


def _same_start(one: _Run, other: _Run) -> bool:
    """Not when the same training gave other weights, as on another processor; records that do not say are paired."""
    return one.start != other.start or one.network == other.network or None in (one.network, other.network)


def _name_and_note(given: str, note: str) -> tuple[str, str]:
    name, colon, own = given.partition(":")
    return name, own if colon else note


def _score(record: Record, at: int | None) -> float | None:
    """Target accuracy at the end or, from the curve, after ``at`` steps."""
    if at is None:
        return record.target
    return next((float(point["target_test"]) for point in record.curve if point["step"] == at), None)
