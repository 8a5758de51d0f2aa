"""Line charts as plain SVG, for pages of the documentation: panels side by side with one legend."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 400, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 30, 48
LEGEND = 24
"""Height of a row of the legend."""
COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#ff7f0e", "#17becf", "#bcbd22", "#7f7f7f")
SCALES: dict[str, Callable[[float], float]] = {"linear": float, "log": math.log10, "log1p": math.log1p}


@dataclass(frozen=True)
class Line:
    """One line; lines of one name share a colour and an entry of the legend."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] = ()
    """Half the length of each point's whisker."""
    dots: bool = True


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    lines: Sequence[Line]
    x_title: str
    y_title: str
    title: str = ""
    scale: Literal["linear", "log", "log1p"] = "linear"
    """Of the x axis; ``log1p`` has a place for 0."""
    ticks: Sequence[float] | None = None
    """Values written below the x axis; those of the points when not given."""
    level: tuple[float, str] | None = None
    """A dashed line across, with its name."""


def svg_chart(panels: Sequence[Panel], *, columns: int = 3) -> str:
    """All panels as one picture."""
    names = list(dict.fromkeys(line.name for panel in panels for line in panel.lines))
    colors = {name: COLORS[number % len(COLORS)] for number, name in enumerate(names)}
    columns = min(columns, len(panels))
    width, rows = columns * WIDTH, math.ceil(len(panels) / columns)
    legend, legend_height = _legend(colors, width)
    height = rows * HEIGHT + legend_height
    parts = [f'<rect width="{width}" height="{height}" fill="white"/>']
    for number, panel in enumerate(panels):
        across, down = number % columns * WIDTH, number // columns * HEIGHT
        parts.append(f'<g transform="translate({across} {down})">\n{_panel(panel, colors)}\n</g>')
    parts.append(f'<g transform="translate(0 {rows * HEIGHT})">\n{legend}\n</g>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
    return head + 'font-family="sans-serif" font-size="12">\n' + "\n".join(parts) + "\n</svg>\n"


class _Axes:
    def __init__(self, panel: Panel) -> None:
        self.scale = SCALES[panel.scale]
        xs = [self.scale(x) for line in panel.lines for x in line.x]
        ys = [edge for line in panel.lines for edge in _edges(line)]
        if panel.level is not None:
            ys.append(panel.level[0])
        self.left, self.right = min(xs), max(max(xs), min(xs) + 1e-9)
        self.values = nice_ticks(min(ys), max(ys))

    def x(self, value: float) -> float:
        return LEFT + 8 + (WIDTH - LEFT - RIGHT - 16) * (self.scale(value) - self.left) / (self.right - self.left)

    def y(self, value: float) -> float:
        low, high = self.values[0], self.values[-1]
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low)


def nice_ticks(low: float, high: float, most: int = 7) -> list[float]:
    """Round numbers from below ``low`` to above ``high``, at most so many."""
    span = max(high - low, 1e-9 * max(1.0, abs(high)))
    step = 10.0 ** math.floor(math.log10(span / most))
    factors = (1, 2, 5, 10, 20, 50)
    first, last = 0, 1
    for factor in factors:
        first, last = math.floor(low / (factor * step) + 1e-9), math.ceil(high / (factor * step) - 1e-9)
        if last - first < most:
            step *= factor
            break
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def _edges(line: Line) -> list[float]:
    spread = line.spread or [0.0] * len(line.y)
    return [value for y, s in zip(line.y, spread, strict=True) for value in (y - s, y + s)]


def _panel(panel: Panel, colors: dict[str, str]) -> str:
    axes, base, end = _Axes(panel), HEIGHT - BOTTOM, WIDTH - RIGHT
    middle, across = (TOP + base) / 2, (LEFT + end) / 2
    parts = [f'<text x="{across}" y="18" text-anchor="middle" font-weight="bold">{escape(panel.title)}</text>']
    for value in axes.values:
        y = axes.y(value)
        parts.append(f'<line x1="{LEFT}" x2="{end}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>')
    ticks = sorted({x for line in panel.lines for x in line.x}) if panel.ticks is None else panel.ticks
    for tick in ticks:
        x = axes.x(tick)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{base}" y2="{base + 5}" stroke="#444"/>')
        parts.append(f'<text x="{x:.1f}" y="{base + 18}" text-anchor="middle">{tick:.4g}</text>')
    parts.append(f'<line x1="{LEFT}" x2="{end}" y1="{base}" y2="{base}" stroke="#444"/>')
    parts.append(f'<text x="{across}" y="{HEIGHT - 10}" text-anchor="middle">{escape(panel.x_title)}</text>')
    turned = f'transform="rotate(-90 14 {middle})"'
    parts.append(f'<text x="14" y="{middle}" text-anchor="middle" {turned}>{escape(panel.y_title)}</text>')
    if panel.level is not None:
        y = axes.y(panel.level[0])
        parts.append(f'<line x1="{LEFT}" x2="{end}" y1="{y:.1f}" y2="{y:.1f}" stroke="#444" stroke-dasharray="5 4"/>')
        name = escape(panel.level[1])
        parts.append(f'<text x="{end - 4}" y="{y - 5:.1f}" text-anchor="end" fill="#444">{name}</text>')
    return "\n".join([*parts, *(_line(axes, line, colors[line.name]) for line in panel.lines)])


def _line(axes: _Axes, line: Line, color: str) -> str:
    points = [(axes.x(x), axes.y(y)) for x, y in zip(line.x, line.y, strict=True)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    parts = [f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>']
    for (x, _), y, spread in zip(points, line.y, line.spread or [], strict=False):
        ends = f'y1="{axes.y(y - spread):.1f}" y2="{axes.y(y + spread):.1f}"'
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" {ends} stroke="{color}"/>')
    if line.dots:
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{color}"/>' for x, y in points]
    return "\n".join(parts)


def _legend(colors: dict[str, str], width: int) -> tuple[str, int]:
    """The names in rows, and how high they are together."""
    parts, x, row = [], LEFT, 0
    for name, color in colors.items():
        needed = 36 + 7 * len(name)
        if x + needed > width and x > LEFT:
            x, row = LEFT, row + 1
        y = 6 + LEGEND * row
        parts.append(f'<line x1="{x}" x2="{x + 18}" y1="{y}" y2="{y}" stroke="{color}" stroke-width="2"/>')
        parts.append(f'<text x="{x + 24}" y="{y + 4}">{escape(name)}</text>')
        x += needed
    return "\n".join(parts), LEGEND * (row + 1)
