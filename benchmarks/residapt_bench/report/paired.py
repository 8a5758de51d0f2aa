"""Two methods over the same seeds: the mean difference and its confidence interval (paired t)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

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
    steps: int | None = None,
    at: int | None = None,
) -> PairedDifference:
    """Over the seeds that both methods have, where a seed changed everything (warm start, start, order).

    A ``+`` behind a method's name stands for the recipe plus, and ``:`` introduces a note of its runs instead of
    ``note`` (``rpt:by reversal``). Only runs of the same length are paired; ``steps`` says
    of which where there are several, ``task`` of which pair of domains. The source network itself is compared with any.
    ``at`` compares the runs after so many of their steps, where their curves have that point, not at their end.
    """
    chosen = [
        record
        for record in records
        if arch in (None, record.plan.arch)
        and task in (None, record.plan.task)
        and record.plan.varied == "all"
        and record.plan.recipe in (recipe, "plus")
    ]
    one, other = (_runs_of(chosen, *_name_and_note(given, note)) for given in (first, second))
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
        f"no seed has a run of both '{first}' and '{second}'"
        + (f" with note '{note}'" if note else "")
        + (f" and {steps} steps." if steps is not None else ".")
    )


Scores = dict[int, dict[int, float]]
"""Target accuracy by number of steps and seed."""


def _runs_of(records: Iterable[Record], name: str, note: str) -> list[Record]:
    return [record for record in records if (record.plan.full_name, record.plan.note) == (name, note)]


def _scores(records: Iterable[Record], at: int | None) -> Scores:
    scores: Scores = {}
    for record in records:
        score = _score(record, at)
        if score is not None:
            scores.setdefault(record.plan.steps, {})[record.plan.seed] = score
    return scores


def _differences(one: Scores, other: Scores, steps: int | None) -> dict[int, dict[int, float]]:
    """First minus second by length and seed; the source network itself, of 0 steps, is compared with any length."""
    pairs = {max(a, b): (a, b) for a in one for b in other if a == b or 0 in (a, b)}
    return {
        length: {seed: one[a][seed] - other[b][seed] for seed in sorted(one[a].keys() & other[b].keys())}
        for length, (a, b) in pairs.items()
        if steps in (None, length)
    }


def _name_and_note(given: str, note: str) -> tuple[str, str]:
    name, colon, own = given.partition(":")
    return name, own if colon else note


def _score(record: Record, at: int | None) -> float | None:
    """Target accuracy at the end or, from the curve, after ``at`` steps."""
    if at is None:
        return record.target
    return next((float(point["target_test"]) for point in record.curve if point["step"] == at), None)
