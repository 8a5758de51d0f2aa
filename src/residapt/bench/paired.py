"""Two methods over the same seeds: the mean difference and its confidence interval (paired t)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from scipy import stats

from residapt.errors import DataError


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
    records: Iterable[dict[str, Any]],
    first: str,
    second: str,
    *,
    arch: str = "lenet",
    note: str = "",
    recipe: str = "common",
) -> PairedDifference:
    """Over the seeds that both methods have, where a seed changed everything (warm start, start, order).

    A ``+`` behind a method's name stands for the recipe plus.
    """
    scores: dict[str, dict[int, float]] = {first: {}, second: {}}
    for record in records:
        plan = record["plan"]
        name = plan["method"] + ("+" if plan["recipe"] == "plus" else "")
        chosen = plan["arch"] == arch and plan["note"] == note and plan["varied"] == "all"
        if chosen and name in scores and plan["recipe"] in (recipe, "plus"):
            scores[name][plan["seed"]] = record["accuracy"]["target_test"]
    seeds = sorted(scores[first].keys() & scores[second].keys())
    if not seeds:
        raise DataError(
            f"no seed has a run of both '{first}' and '{second}' on {arch}" + (f" with note '{note}'." if note else ".")
        )
    return PairedDifference(first, second, {seed: scores[first][seed] - scores[second][seed] for seed in seeds})
