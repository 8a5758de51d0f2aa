"""Ranks of every layer before and after, as in the paper's rank tables; means over runs, from records only."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence

from residapt.errors import DataError
from residapt_bench.plan import RecordedPlan
from residapt_bench.record import Ranks, Record
from residapt_bench.report.markdown import markdown

HEADINGS = ("layer", "l before", "l after", "r before", "r after")


def rank_rows(runs: Sequence[Record]) -> list[tuple[str, ...]]:
    """A row for each layer, in the order of the network."""
    ranks = [run.ranks for run in runs]
    rows: list[tuple[str, ...]] = []
    for layer in ranks[0].before if ranks else ():
        before = ranks[0].before[layer]
        left, right = (statistics.fmean(run.after[layer][side] for run in ranks) for side in (0, 1))
        rows.append((layer, str(before[0]), f"{left:.1f}", str(before[1]), f"{right:.1f}"))
    return rows


def rank_tables(records: Iterable[Record], *, method: str = "rpt") -> str:
    """A heading and a table for each task, network, recipe and note."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        if record.plan.method == method and record.ranks.before:
            groups.setdefault(_heading(record.plan), []).append(record)
    if not groups:
        raise DataError(f"the records have no run of '{method}' with ranks.")
    return "\n".join(part for heading, runs in groups.items() for part in _table(heading, runs))


def _heading(plan: RecordedPlan) -> str:
    words = [plan.task, plan.arch, plan.recipe, *([plan.note] if plan.note else [])]
    words.append(f"{plan.steps:,} steps")
    if plan.varied != "all":
        words.append(f"{plan.varied} varied")
    return ", ".join(words)


def _table(heading: str, runs: Sequence[Record]) -> Iterator[str]:
    before, after = (statistics.fmean(_sum(getattr(run.ranks, when)) for run in runs) for when in ("before", "after"))
    transform, network = (runs[0].parameters.before[name] for name in ("transform", "network"))
    left = statistics.fmean(run.parameters.after["transform"] for run in runs)
    yield f"**{heading}**, mean of {len(runs)} run(s)\n"
    yield markdown(HEADINGS, [*rank_rows(runs), ("sum of l + r", f"{before:.0f}", f"{after:.1f}", "", "")])
    yield f"Parameters of the transforms: {transform:,} → {left:,.0f}; of the network: {network:,}.\n"


def _sum(ranks: Ranks) -> int:
    return sum(sum(pair) for pair in ranks.values())
