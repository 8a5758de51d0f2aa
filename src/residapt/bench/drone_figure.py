"""Average precision against the number of labelled drones, as a small SVG; from records only."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from residapt.bench.drone_tables import NAMES, Record, label_rows
from residapt.errors import DataError

WIDTH, HEIGHT = 560, 340
LEFT, RIGHT, TOP, BOTTOM = 58, 150, 18, 48
COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")


@dataclass(frozen=True)
class Axes:
    """Where values lie in the picture: x by log(1 + n), so that 0 has a place."""

    most: float
    low: float
    high: float

    def x(self, count: float) -> float:
        """Pixels from the left."""
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log1p(count) / math.log1p(self.most)

    def y(self, value: float) -> float:
        """Pixels from the top."""
        return TOP + (HEIGHT - TOP - BOTTOM) * (self.high - value) / (self.high - self.low)


def label_figure(records: Sequence[Record]) -> str:
    """An SVG with a line for each method; whiskers are one standard deviation over the seeds."""
    found = {method: rows for method, rows in label_rows(records).items() if rows}
    if not found:
        raise DataError("the records have no runs of fine_tune or rpt on the test, so that there is nothing to draw.")
    counts = sorted({count for rows in found.values() for count in rows})
    spans = [(statistics.fmean(v), _std(v)) for rows in found.values() for v in rows.values()]
    low = math.floor(10 * min(mean - std for mean, std in spans)) / 10
    high = math.ceil(10 * max(mean + std for mean, std in spans)) / 10
    axes = Axes(max(max(counts), 1), low, max(high, low + 0.1))
    parts = [_frame(axes, counts)]
    for number, (method, rows) in enumerate(found.items()):
        parts.append(_line(axes, NAMES[method], rows, COLORS[number % len(COLORS)], number))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
    return head + 'font-family="sans-serif" font-size="12">\n' + "\n".join(parts) + "\n</svg>\n"


def _std(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _frame(axes: Axes, counts: Sequence[int]) -> str:
    base, end = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for step in range(round((axes.high - axes.low) * 10) + 1):
        value = axes.low + step / 10
        y = axes.y(value)
        parts.append(f'<line x1="{LEFT}" x2="{end}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:.1f}</text>')
    for count in counts:
        x = axes.x(count)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{base}" y2="{base + 5}" stroke="#444"/>')
        parts.append(f'<text x="{x:.1f}" y="{base + 18}" text-anchor="middle">{count}</text>')
    parts.append(f'<line x1="{LEFT}" x2="{end}" y1="{base}" y2="{base}" stroke="#444"/>')
    parts.append(f'<text x="{(LEFT + end) / 2}" y="{HEIGHT - 10}" text-anchor="middle">labelled real drones</text>')
    middle = (TOP + base) / 2
    turned = f'transform="rotate(-90 16 {middle})"'
    return "\n".join([*parts, f'<text x="16" y="{middle}" text-anchor="middle" {turned}>average precision</text>'])


def _line(axes: Axes, name: str, rows: dict[int, list[float]], color: str, number: int) -> str:
    points = [(axes.x(count), statistics.fmean(values), _std(values)) for count, values in rows.items()]
    path = " ".join(f"{x:.1f},{axes.y(mean):.1f}" for x, mean, _ in points)
    parts = [f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>']
    for x, mean, std in points:
        ends = f'y1="{axes.y(mean - std):.1f}" y2="{axes.y(mean + std):.1f}"'
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" {ends} stroke="{color}"/>')
        parts.append(f'<circle cx="{x:.1f}" cy="{axes.y(mean):.1f}" r="3.5" fill="{color}"/>')
    x, y = WIDTH - RIGHT + 14, TOP + 14 + 20 * number
    parts.append(f'<line x1="{x}" x2="{x + 18}" y1="{y - 4}" y2="{y - 4}" stroke="{color}" stroke-width="2"/>')
    return "\n".join([*parts, f'<text x="{x + 24}" y="{y}">{escape(name)}</text>'])
