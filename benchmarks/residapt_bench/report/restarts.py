"""Restarts: of several runs of a method that differ by their seed, the one with the highest label-free score counts."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from residapt.errors import DataError
from residapt_bench.digits.network_choice import Candidate
from residapt_bench.record import Record
from residapt_bench.report.groups import run_groups
from residapt_bench.report.markdown import markdown

SIZE = 5
"""Restarts that one is chosen from."""


def best_of(scores: Sequence[float], accuracies: Sequence[float], size: int = SIZE) -> float:
    """Mean accuracy of the run with the highest score, over all sets of ``size`` of the runs.

    A run is the best of a set whose others are all below it; between equal scores the earlier run counts.
    """
    count = len(scores)
    if not 1 <= size <= count:
        raise DataError(f"best of {size} needs at least {size} runs, got {count}.")
    order = sorted(range(count), key=lambda run: (scores[run], -run))
    sets = math.comb(count, size)
    return sum(math.comb(below, size - 1) * accuracies[run] for below, run in enumerate(order)) / sets


def restart_table(records: Iterable[Record], score: Candidate, *, size: int = SIZE) -> str:
    """A row for each group of at least ``size`` runs: what one run comes to, and the best of ``size`` by the score."""
    rows = []
    for group, runs in run_groups(record for record in records if record.label_free).items():
        if len(runs) < size or group.varied != "all":
            continue
        accuracies = [run.target for run in runs]
        picked = best_of([score.of(run) for run in runs], accuracies, size)
        single = f"{statistics.fmean(accuracies):.1f} ± {statistics.stdev(accuracies):.1f}"
        name = (group.task, group.method, group.note, f"{group.steps:,}", str(len(runs)))
        rows.append((*name, single, f"{picked:.1f}", f"{max(accuracies):.1f}"))
    if not rows:
        raise DataError(f"the records have no method with {size} runs that differ by their seed.")
    heads = ("task", "method", "note", "steps", "n", "one run", f"best of {size} by {score.score}", "best by labels")
    return markdown(heads, rows)
