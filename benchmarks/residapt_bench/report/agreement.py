"""How far runs that differ by their seed agree on the same unlabelled target images; no label is needed.

Where the same settings lead to different names for the same images, at most one of the runs can be right about them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from itertools import combinations

from residapt.errors import DataError
from residapt_bench.record import Record
from residapt_bench.report.groups import run_groups
from residapt_bench.report.markdown import markdown

HEADINGS = (
    "task",
    "network",
    "method",
    "recipe",
    "steps",
    "varied",
    "note",
    "runs",
    "agreement, %",
    "lowest pair",
    "InfoMax",
)


def pair_agreements(predictions: Sequence[str]) -> list[float]:
    """Share of images with the same class, for every pair of runs."""
    return [statistics.fmean(a == b for a, b in zip(x, y, strict=True)) for x, y in combinations(predictions, 2)]


def agreement_table(records: Iterable[Record]) -> str:
    """A row for each group of runs that differ by their seed only, those that agree best first."""
    groups = run_groups(record for record in records if record.predicted)
    rows = []
    for group, runs in groups.items():
        shares = pair_agreements([run.predicted for run in runs])
        if shares:
            score = statistics.fmean(run.label_free["infomax"][1] for run in runs)
            rows.append((statistics.fmean(shares), min(shares), score, len(runs), group))
    if not rows:
        raise DataError("the records have no two runs that differ by their seed only and hold their predictions.")
    rows.sort(key=lambda row: -row[0])
    return markdown(
        HEADINGS,
        [
            (*map(str, group), str(count), f"{100 * mean:.1f}", f"{100 * lowest:.1f}", f"{score:.3f}")
            for mean, lowest, score, count, group in rows
        ],
    )
