"""The page of Office-31: the table, accuracy along the runs, and the ranks of every layer."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from residapt.report.charts import SERIES, Series, bar_chart, grid, line_chart
from residapt.report.html import Html, join, tag
from residapt.report.page import Section, render_page
from residapt.report.tables import Column, table
from residapt_bench.office31.experiment import PAIRS
from residapt_bench.office31.table import HEADINGS, office_rows
from residapt_bench.record import Record

PROTOCOL = (
    "Fully transductive: all labelled source images, all target images without labels, accuracy on the same target "
    "images. Last iterate; target labels were used for the final evaluation and for the curves only. "
    "A pair without a run is empty; ± is the standard deviation over seeds."
)


def office_page(records: Sequence[Record]) -> Html:
    """The whole page, from records only."""
    main = [record for record in records if not record.plan.note]
    sections = [Section("table", "Accuracy", _table(records), "Accuracy")]
    parts = (("ranks", "Ranks of every layer", _ranks(main)), ("curves", "Accuracy along the runs", _curves(main)))
    sections += [Section(anchor, heading, body, heading) for anchor, heading, body in parts if body]
    return render_page("Office-31", tag("h1", "Office-31"), sections)


def _table(records: Sequence[Record]) -> Html:
    columns = [Column(name, number=name not in ("method", "from")) for name in HEADINGS]
    return join([table(columns, [row.cells() for row in office_rows(records)]), tag("p", PROTOCOL)])


def _ranks(records: Sequence[Record]) -> Html:
    """A to W first, as in the paper's figure."""
    charts = []
    for pair in PAIRS:
        chosen = [r for r in records if r.plan.method == "rpt" and r.plan.task == pair]
        if not chosen:
            continue
        layers = list(chosen[0].ranks.before)
        before = [float(sum(chosen[0].ranks.before[layer])) for layer in layers]
        after = [statistics.fmean(sum(run.ranks.after[layer]) for run in chosen) for layer in layers]
        series = [Series("before", before, [], "--shade", muted=True), Series("after", after, [], "--target")]
        title = f"{pair.upper().replace('-', '→')}: l + r of each layer, mean of {len(chosen)} run(s)"
        charts.append(bar_chart(title, layers, series, x_title="l + r"))
    return grid(*charts) if charts else Html("")


def _curves(records: Sequence[Record]) -> Html:
    charts = []
    for pair in PAIRS:
        chosen = [r for r in records if r.plan.task == pair and r.plan.method != "source_only"]
        methods = sorted({r.plan.method for r in chosen})
        series = [_curve(method, chosen, SERIES[i % len(SERIES)]) for i, method in enumerate(methods)]
        if series:
            charts.append(line_chart(f"{pair.upper().replace('-', '→')}: target accuracy, mean of the seeds", series))
    return grid(*charts) if charts else Html("")


def _curve(method: str, records: Sequence[Record], color: str) -> Series:
    points: dict[float, list[float]] = {}
    for record in records:
        for point in record.curve if record.plan.method == method else ():
            points.setdefault(point["step"], []).append(point["target"])
    steps = sorted(points)
    return Series(method, steps, [statistics.fmean(points[step]) for step in steps], color)
