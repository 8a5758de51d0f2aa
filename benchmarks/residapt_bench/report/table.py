"""Tables from records only: published, ours (mean, std, n, what varied), difference; a cell without runs is empty."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich import box
from rich.console import Group
from rich.table import Table

from residapt_bench.digits.published import PUBLISHED, Published
from residapt_bench.record import Record
from residapt_bench.report.groups import RunGroup, run_groups
from residapt_bench.report.markdown import markdown

HEADINGS = (
    "task",
    "network",
    "method",
    "recipe",
    "steps",
    "paper",
    "ours",
    "std",
    "n",
    "varied",
    "diff",
    "target train",
    "source",
)
WORDS = ("task", "network", "method", "recipe", "varied")
"""Columns that are not numbers."""


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    group: RunGroup
    values: tuple[float, ...]
    train: tuple[float, ...]
    source: tuple[float, ...]

    @property
    def published(self) -> Published | None:
        """The paper's number; nothing was published for what goes beyond the paper."""
        group = self.group
        return None if group.recipe == "plus" else PUBLISHED.get(group.task, {}).get((group.arch, group.method))

    def cells(self) -> tuple[str, ...]:
        """Text of the columns of ``HEADINGS``."""
        group, paper = self.group, self.published
        mean = statistics.fmean(self.values) if self.values else None
        return (
            group.task,
            group.arch,
            group.method,
            group.recipe if not group.note else f"{group.recipe}, {group.note}",
            f"{group.steps:,}" if group.steps else "",
            f"{paper.percent:.1f}" if paper else "",
            "" if mean is None else f"{mean:.1f}",
            f"{statistics.stdev(self.values):.2f}" if len(self.values) > 1 else "",
            str(len(self.values)) if self.values else "",
            group.varied if self.values else "",
            f"{mean - paper.percent:+.1f}" if paper and mean is not None else "",
            f"{statistics.fmean(self.train):.1f}" if self.train else "",
            f"{statistics.fmean(self.source):.1f}" if self.source else "",
        )


def rows_of(records: Iterable[Record]) -> list[Row]:
    """Group records into rows; published methods that have no run give rows with empty cells."""
    groups = run_groups(records)
    for task in sorted({group.task for group in groups}):
        for arch, method in PUBLISHED.get(task, {}):
            if not any(group[:3] == (task, arch, method) and group.recipe != "plus" for group in groups):
                groups[RunGroup(task, arch, method, recipe="", steps=0, varied="", note="")] = []
    return [_row(group, groups[group]) for group in sorted(groups)]


def _row(group: RunGroup, records: Sequence[Record]) -> Row:
    names = ("target_test", "target_train", "source_test")
    values, train, source = (tuple(r.scores[name].accuracy for r in records) for name in names)
    return Row(group, values, train, source)


def rich_tables(rows: Iterable[Row]) -> Group:
    """For a terminal: a table for each task and network."""
    return Group(*(_rich_table(heading, list(same)) for heading, same in groupby(rows, lambda row: row.group[:2])))


def _rich_table(heading: tuple[str, str], rows: Sequence[Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), title=", ".join(heading), title_justify="left")
    for name in HEADINGS[2:]:
        table.add_column(name, justify="left" if name in WORDS else "right", no_wrap=name == "method")
    for row in rows:
        table.add_row(*row.cells()[2:])
    return table


def markdown_table(rows: Iterable[Row]) -> str:
    """For the documentation."""
    return markdown(HEADINGS, (row.cells() for row in rows))
