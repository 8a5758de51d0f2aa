"""The page of a benchmark: table, accuracy curves, ranks per layer, and the sweeps over the two weights."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from residapt.bench.table import HEADINGS, rows_of
from residapt.report.charts import Series, bar_chart, grid, line_chart
from residapt.report.html import Html, join, tag
from residapt.report.page import Section, render_page
from residapt.report.tables import Column, table

Record = dict[str, Any]
COLORS = ("--source", "--target", "--accent", "--good", "--bad", "--muted")
SWEEPS: dict[str, tuple[str, Callable[[Record], float]]] = {
    "sweep stream_weight": ("weight of the stream loss, λs", lambda plan: float(plan["settings"]["stream_weight"])),
    "sweep rank.weight": ("weight of the rank penalty, λr", lambda plan: float(plan["settings"]["rank"]["weight"])),
}


def bench_page(records: Sequence[Record], title: str) -> Html:
    """The whole page, from records only."""
    main = [record for record in records if not record["plan"]["note"]]
    sections = [Section("table", "Accuracy", _table(records), "Accuracy")]
    parts = (
        ("curves", "Accuracy along the runs", _curves(main)),
        ("ranks", "Ranks before and after", _ranks(main)),
        ("sweeps", "How much the two weights matter", _sweeps(records)),
    )
    sections += [Section(anchor, heading, body, heading) for anchor, heading, body in parts if body]
    return render_page(title, tag("h1", title), sections)


def _table(records: Sequence[Record]) -> Html:
    columns = [Column(name, number=name in ("published", "ours", "std", "n", "difference")) for name in HEADINGS]
    unofficial = any(not record["data"]["official"] for record in records)
    remark = "Some data files were not the published ones, byte for byte; the records say which." if unofficial else ""
    protocol = "Last iterate; target labels were used for the final evaluation only. An empty cell has no run."
    return join([table(columns, [row.cells() for row in rows_of(records)]), tag("p", f"{protocol} {remark}")])


def _curves(records: Sequence[Record]) -> Html:
    charts = []
    for task, arch in sorted({(r["plan"]["task"], r["plan"]["arch"]) for r in records if r["curve"]}):
        chosen = [r for r in records if (r["plan"]["task"], r["plan"]["arch"]) == (task, arch)]
        methods = sorted({r["plan"]["method"] for r in chosen if r["plan"]["method"] != "source_only"})
        series = [
            _mean_curve(name, [r["curve"] for r in chosen if r["plan"]["method"] == name], COLORS[i % len(COLORS)])
            for i, name in enumerate(methods)
        ]
        charts.append(line_chart(f"{task}, {arch}: target test, mean of the seeds", [s for s in series if s.x]))
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
    chosen = [r for r in records if r["plan"]["method"] == "rpt" and r["ranks"]["before"]]
    for task, arch in sorted({(r["plan"]["task"], r["plan"]["arch"]) for r in chosen}):
        runs = [r["ranks"] for r in chosen if (r["plan"]["task"], r["plan"]["arch"]) == (task, arch)]
        layers = list(runs[0]["before"])
        before = [float(sum(runs[0]["before"][layer])) for layer in layers]
        after = [statistics.fmean(sum(run["after"][layer]) for run in runs) for layer in layers]
        series = [Series("before", before, [], "--shade", muted=True), Series("after", after, [], "--target")]
        charts.append(bar_chart(f"{task}, {arch}: l + r, mean of {len(runs)} runs", layers, series, x_title="l + r"))
    return grid(*charts) if charts else Html("")


def plain_dann(records: Sequence[Record]) -> list[Record]:
    """Runs of DANN that a sweep is held against: the common recipe without any change."""
    wanted = ("dann_flip", "common", "")
    return [r for r in records if tuple(r["plan"][name] for name in ("method", "recipe", "note")) == wanted]


def _sweeps(records: Sequence[Record]) -> Html:
    dann = [r["accuracy"]["target_test"] for r in plain_dann(records)]
    level = statistics.fmean(dann) if dann else None
    charts = []
    for note, (heading, value_of) in SWEEPS.items():
        points = sorted(
            (math.log10(value_of(r["plan"])), r["accuracy"]["target_test"])
            for r in records
            if r["plan"]["note"] == note and value_of(r["plan"]) > 0
        )
        if points:
            series = [Series("rpt", [x for x, _ in points], [y for _, y in points], "--accent")]
            charts.append(line_chart(heading, series, x_title="log10 of the weight; the line is DANN", reference=level))
    return grid(*charts) if charts else Html("")
