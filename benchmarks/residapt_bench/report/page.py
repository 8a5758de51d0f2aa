"""The page of a benchmark: table, accuracy curves, ranks per layer, and the sweeps over the two weights."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from residapt.report.charts import Series, bar_chart, grid, line_chart
from residapt.report.html import Html, join, tag
from residapt.report.page import Section, render_page
from residapt.report.tables import Column, table
from residapt_bench.record import Record
from residapt_bench.report.sweeps import sweeps_of
from residapt_bench.report.table import HEADINGS, WORDS, rows_of

COLORS = ("--source", "--target", "--accent", "--good", "--bad", "--muted")


def bench_page(records: Sequence[Record], title: str) -> Html:
    """The whole page, from records only."""
    main = [record for record in records if not record.plan.note]
    sections = [Section("table", "Accuracy", _table(records), "Accuracy")]
    parts = (
        ("curves", "Accuracy along the runs", _curves(main)),
        ("ranks", "Ranks before and after", _ranks(main)),
        ("sweeps", "How much the two weights matter", _sweeps(records)),
    )
    sections += [Section(anchor, heading, body, heading) for anchor, heading, body in parts if body]
    return render_page(title, tag("h1", title), sections)


def _table(records: Sequence[Record]) -> Html:
    columns = [Column(name, number=name not in WORDS) for name in HEADINGS]
    unofficial = any(not record.data.official for record in records)
    comment = "Some data files were not the published ones, byte for byte; the records say which." if unofficial else ""
    protocol = "Last iterate; target labels were used for the final evaluation only. An empty cell has no run."
    return join([table(columns, [row.cells() for row in rows_of(records)]), tag("p", f"{protocol} {comment}")])


def _alike(records: Sequence[Record]) -> Iterator[tuple[str, list[Record]]]:
    """Runs of one task, network and length, under a heading."""
    groups: dict[tuple[str, str, int], list[Record]] = {}
    for record in records:
        plan = record.plan
        groups.setdefault((plan.task, plan.arch, plan.steps), []).append(record)
    for (task, arch, steps), runs in sorted(groups.items(), key=lambda item: item[0]):
        yield f"{task}, {arch}, {steps:,} steps", runs


def _curves(records: Sequence[Record]) -> Html:
    charts = []
    adapted = [r for r in records if r.curve and r.plan.steps > 0]
    for heading, runs in _alike(adapted):
        methods = sorted({r.plan.method for r in runs})
        series = [
            _mean_curve(name, [r.curve for r in runs if r.plan.method == name], COLORS[i % len(COLORS)])
            for i, name in enumerate(methods)
        ]
        charts.append(line_chart(f"{heading}: target test, mean of the seeds", series))
    return grid(*charts) if charts else Html("")


def _mean_curve(name: str, curves: Sequence[Sequence[dict[str, float]]], color: str) -> Series:
    points: dict[float, list[float]] = {}
    for curve in curves:
        for point in curve:
            points.setdefault(point["step"], []).append(point["target_test"])
    steps = sorted(points)
    return Series(name, steps, [statistics.fmean(points[step]) for step in steps], color)


def _ranks(records: Sequence[Record]) -> Html:
    charts = []
    chosen = [r for r in records if r.plan.method == "rpt" and r.ranks.before]
    for heading, same in _alike(chosen):
        runs = [r.ranks for r in same]
        layers = list(runs[0].before)
        before = [float(sum(runs[0].before[layer])) for layer in layers]
        after = [statistics.fmean(sum(run.after[layer]) for run in runs) for layer in layers]
        series = [Series("before", before, [], "--shade", muted=True), Series("after", after, [], "--target")]
        charts.append(bar_chart(f"{heading}: l + r, mean of {len(runs)} runs", layers, series, x_title="l + r"))
    return grid(*charts) if charts else Html("")


def _sweeps(records: Sequence[Record]) -> Html:
    charts = []
    for sweep in sweeps_of(records):
        series = [Series("rpt", [math.log10(x) for x, _ in sweep.points], [y for _, y in sweep.points], "--accent")]
        axis = "log10 of the weight; the line is DANN"
        charts.append(line_chart(sweep.heading, series, x_title=axis, reference=sweep.dann))
    return grid(*charts) if charts else Html("")
