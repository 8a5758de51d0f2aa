"""Average precision against the number of labelled drones, as a small SVG; from records only."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from residapt.errors import DataError
from residapt_bench.drones.tables import NAMES, label_rows
from residapt_bench.record import Record
from residapt_bench.report.svg import Line, Panel, svg_chart


def label_figure(records: Sequence[Record]) -> str:
    """An SVG with a line for each method; whiskers are one standard deviation over the seeds."""
    found = {method: rows for method, rows in label_rows(records).items() if rows}
    if not found:
        raise DataError("the records have no runs of fine_tune or rpt on the test, so that there is nothing to draw.")
    lines = []
    for method, rows in found.items():
        means = [statistics.fmean(values) for values in rows.values()]
        spread = [statistics.stdev(values) if len(values) > 1 else 0.0 for values in rows.values()]
        lines.append(Line(NAMES[method], list(rows), means, spread))
    return svg_chart([Panel(lines, "labelled real drones", "average precision", scale="log1p")])
