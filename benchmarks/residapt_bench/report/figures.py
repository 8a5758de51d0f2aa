"""Figures of a grid for the documentation, as SVG, from records only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from residapt.errors import DataError
from residapt_bench.plan import RecordedPlan
from residapt_bench.record import Record
from residapt_bench.report.svg import Line, Panel, svg_chart
from residapt_bench.report.sweeps import SWEEPS, sweeps_of

NAMES = {"common": "common recipe", "own": "own recipe", "plus": "with the recipe plus"}


def curves_figure(records: Iterable[Record], methods: Sequence[str], *, arch: str = "lenet", note: str = "") -> str:
    """A panel for each method with every run's curve, one colour for each recipe.

    The common recipe has no note; runs of other recipes are those with ``note``. Where the source network of a run has
    a record, the curve begins there.
    """
    chosen = [r for r in records if r.plan.arch == arch and r.plan.varied == "all" and r.curve]
    chosen = [r for r in chosen if r.plan.note == ("" if r.plan.recipe == "common" else note)]
    starts = {_start(r.plan): r.target for r in chosen if r.plan.method == "source_only"}
    panels = []
    for method in methods:
        runs = [r for r in chosen if r.plan.method == method]
        runs.sort(key=lambda r: (r.plan.recipe, r.plan.seed))
        lines = [_curve(run, starts.get(_start(run.plan))) for run in runs]
        if lines:
            ticks = sorted({step for line in lines for step in line.x})
            panels.append(Panel(lines, "steps", "target test, %", method, ticks=ticks))
    if not panels:
        raise DataError(f"the records have no curves of {', '.join(methods)} with {arch}.")
    return svg_chart(panels)


def _start(plan: RecordedPlan) -> tuple[str, int]:
    """What tells the source networks of one task and network apart."""
    return plan.recipe, plan.seed


def _curve(run: Record, start: float | None) -> Line:
    points = [(p["step"], p["target_test"]) for p in run.curve]
    if start is not None:
        points.insert(0, (0, start))
    name = NAMES[run.plan.recipe]
    return Line(name, [x for x, _ in points], [y for _, y in points], dots=False)


def sweep_figure(records: Sequence[Record], *, arch: str = "lenet") -> str:
    """Accuracy as a function of each of the two weights, beside DANN's mean at the same budget."""
    panels = []
    for sweep in sweeps_of([r for r in records if r.plan.arch == arch]):
        line = Line("RPT", [x for x, _ in sweep.points], [y for _, y in sweep.points])
        level = None if sweep.dann is None else (sweep.dann, "DANN")
        panels.append(Panel([line], sweep.heading, "target test, %", scale="log", level=level))
    if not panels:
        raise DataError(f"the records have no sweep of {' or '.join(SWEEPS)} with {arch}.")
    return svg_chart(panels)
