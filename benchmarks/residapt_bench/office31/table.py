"""The table of Office-31 from records only: a row for each method, a column for each pair, published rows below."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.table import Table

from residapt.errors import DataError
from residapt_bench.office31.experiment import PAIRS
from residapt_bench.office31.published import PUBLISHED_OFFICE
from residapt_bench.plan import OfficeSetup
from residapt_bench.record import Record
from residapt_bench.report.markdown import markdown

OURS = "ours"
METHODS = ("source_only", "dann_flip", "rpt_fixed", "rpt")
"""In the order of the rows; others come after them."""
HEADINGS = ("method", "from", *(pair.upper().replace("-", "→") for pair in PAIRS), "mean of six", "runs")


@dataclass(frozen=True)
class OfficeRow:
    """A method with its accuracies; a pair without a run has no number."""

    method: str
    origin: str
    values: dict[str, tuple[float, ...]]

    @property
    def mean(self) -> float | None:
        """Over the six pairs, each by the mean of its runs; None as long as a pair is missing."""
        if any(not self.values.get(pair) for pair in PAIRS):
            return None
        return statistics.fmean(statistics.fmean(self.values[pair]) for pair in PAIRS)

    def cells(self) -> tuple[str, ...]:
        """Text of the columns of ``HEADINGS``."""
        runs = sum(len(found) for found in self.values.values())
        mean = "" if self.mean is None else f"{self.mean:.1f}"
        count = str(runs) if self.origin.startswith(OURS) else ""
        return (self.method, self.origin, *(_cell(self.values.get(pair, ())) for pair in PAIRS), mean, count)


def office_rows(records: Iterable[Record], *, published: bool = True) -> list[OfficeRow]:
    """Our rows, one for each method and note, then the published ones."""
    groups: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    for record in records:
        plan = record.plan
        group = groups.setdefault((plan.note, _setting(record), plan.label), {})
        group.setdefault(plan.task, []).append(record.target)
    ours = [
        OfficeRow(method, f"{OURS}, {setting}{f', {note}' if note else ''}", _frozen(found))
        for (note, setting, method), found in sorted(groups.items(), key=lambda item: (*item[0][:2], _place(item[0])))
    ]
    return [*ours, *(_published() if published else [])]


def _setting(record: Record) -> str:
    """What tells rows of one method apart: runs of another network, input or kind of weights are other rows."""
    plan, setup = record.plan, record.plan.setup
    if not isinstance(setup, OfficeSetup):
        raise DataError(f"record '{record.key}' is one of {setup.kind}, not of office31.")
    averaged = plan.setting("average.decay") > 0 and plan.method != "source_only"
    stages = f"{plan.arch.partition(':')[2]} {setup.image_size}², from {setup.freeze} on"
    return stages + (", averaged weights" if averaged else "")


def _published() -> list[OfficeRow]:
    rows = []
    for row in PUBLISHED_OFFICE:
        how = f" ({row.selection})" if row.selection else ""
        values = _frozen({pair: [value] for pair, value in row.by_pair().items()})
        rows.append(OfficeRow(row.name, f"{row.source}, ResNet-50 224²{how}", values))
    return rows


def _frozen(values: dict[str, list[float]]) -> dict[str, tuple[float, ...]]:
    return {pair: tuple(found) for pair, found in values.items()}


def _place(key: Sequence[str]) -> tuple[int, str]:
    method = key[-1].partition(" (")[0]
    return (METHODS.index(method) if method in METHODS else len(METHODS), key[-1])


def _cell(values: Sequence[float]) -> str:
    if not values:
        return ""
    spread = f" ±{statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.1f}{spread}"


def office_rich(rows: Iterable[OfficeRow]) -> Table:
    """For a terminal."""
    table = Table(*HEADINGS)
    for row in rows:
        table.add_row(*row.cells())
    return table


def office_markdown(rows: Iterable[OfficeRow]) -> str:
    """For the documentation."""
    return markdown(HEADINGS, (row.cells() for row in rows))
