"""Accuracy against the size of what the target has for itself, from records only."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from residapt.errors import DataError
from residapt_bench.record import Record
from residapt_bench.report.svg import Line, Panel, svg_chart

FRONT = "Pareto front"


@dataclass(frozen=True)
class Point:
    """A method, or one of its variants, on one task."""

    task: str
    name: str
    note: str
    size: float
    """Parameters of the target's own, as a percentage of the network's."""
    accuracy: float
    """Mean over the seeds, in per cent."""
    spread: float
    """Standard deviation over the seeds."""
    seeds: int


def points_of(records: Iterable[Record]) -> list[Point]:
    """A point for each task, method and note; the source network is none."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        if record.plan.method != "source_only":
            task = f"{record.plan.task}, {record.plan.arch}"
            groups.setdefault((task, record.plan.method, record.plan.note), []).append(record)
    if not groups:
        raise DataError("the records have no runs of a method that adapts.")
    return [_point(*key, runs) for key, runs in groups.items()]


def _point(task: str, name: str, note: str, runs: Sequence[Record]) -> Point:
    found = [run.target for run in runs]
    shares = [100 * run.parameters.after["transform"] / run.parameters.after["deployed"] for run in runs]
    spread = statistics.stdev(found) if len(found) > 1 else 0.0
    return Point(task, name, note, statistics.fmean(shares), statistics.fmean(found), spread, len(runs))


def front_of(points: Iterable[Point]) -> list[Point]:
    """The points of one task that no other is both smaller and better than, from small to large."""
    found: list[Point] = []
    for point in sorted(points, key=lambda p: (p.size, -p.accuracy)):
        if not found or point.accuracy > found[-1].accuracy:
            found.append(point)
    return found


def fronts(points: Sequence[Point]) -> dict[str, list[Point]]:
    """The front of each task."""
    tasks = dict.fromkeys(point.task for point in points)
    return {task: front_of(p for p in points if p.task == task) for task in tasks}


def front_shares(points: Sequence[Point]) -> dict[str, float]:
    """The share of its tasks on which a method has a point on the front."""
    on = {(p.task, p.name) for front in fronts(points).values() for p in front}
    shares = {}
    for name in dict.fromkeys(point.name for point in points):
        tasks = {p.task for p in points if p.name == name}
        shares[name] = sum((task, name) in on for task in tasks) / len(tasks)
    return shares


def pareto_table(records: Iterable[Record]) -> str:
    """Points and shares of tasks on the front as Markdown."""
    points = points_of(records)
    on = {id(p) for front in fronts(points).values() for p in front}
    rows = ["| task | method | variant | size, % of the network | accuracy | seeds | on the front |", "|" + "---|" * 7]
    for p in sorted(points, key=lambda p: (p.task, p.size)):
        spread = f" ± {p.spread:.1f}" if p.seeds > 1 else ""
        yes = "yes" if id(p) in on else ""
        rows.append(
            f"| {p.task} | `{p.name}` | {p.note} | {p.size:.2f} | {p.accuracy:.1f}{spread} | {p.seeds} | {yes} |"
        )
    shares = [f"`{name}` {share:.0%}" for name, share in front_shares(points).items()]
    return "\n".join([*rows, "", f"On the front: {', '.join(shares)} of the tasks.", ""])


def pareto_figure(records: Iterable[Record]) -> str:
    """A panel for each task: a line for each method, its variants joined by size, and the front."""
    points = points_of(records)
    panels = []
    for task, front in fronts(points).items():
        own = [p for p in points if p.task == task]
        lines = [_line(name, [p for p in own if p.name == name]) for name in dict.fromkeys(p.name for p in points)]
        shown = [line for line in lines if line.x]
        shown.append(Line(FRONT, [p.size for p in front], [p.accuracy for p in front], dots=False))
        ticks = [tick for tick in (0, 1, 3, 10, 30, 100) if tick <= 1.2 * max(p.size for p in own)]
        panels.append(Panel(shown, "size, % of the network", "target test, %", task, scale="log1p", ticks=ticks or [0]))
    return svg_chart(panels, columns=2)


def _line(name: str, points: Sequence[Point]) -> Line:
    ordered = sorted(points, key=lambda p: p.size)
    return Line(name, [p.size for p in ordered], [p.accuracy for p in ordered], [p.spread for p in ordered])
