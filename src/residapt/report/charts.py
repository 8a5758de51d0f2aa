"""Charts as data: a Plotly figure in the page's JSON, drawn by page.js in the colours of the reader's theme.

Colours are names of CSS variables (``--source``), which page.js replaces by their present values, so that one figure
serves light and dark. Text from outside goes through :func:`label`: Plotly reads some markup in labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from residapt.report.html import Html, embed_json, tag

SERIES = tuple(f"--series-{number}" for number in range(1, 7))
"""Colours of series without a meaning of their own."""
ROW_HEIGHT = 22
"""Pixels for one row of a bar or dot chart."""
LONGEST_LABEL = 24
PERCENT = "~%"
"""As many digits as tell the ticks of an axis apart; rounding to whole numbers would repeat them."""


def label(text: object, longest: int | None = None) -> str:
    """Text that Plotly shows as it is (no tags, no formulas), cut in the middle if longer than ``longest``."""
    shown = str(text)
    if longest is not None and len(shown) > longest:
        keep = (longest - 1) // 2
        shown = f"{shown[:keep]}…{shown[-keep:]}"
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("$", "&#36;")):
        shown = shown.replace(character, entity)
    return shown


@dataclass(frozen=True)
class Series:
    """One named set of numbers; ``color`` is a CSS variable."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    color: str
    muted: bool = False
    """Drawn behind the others: a broad bar, an open dot."""


def figure(
    title: str,
    traces: Sequence[Mapping[str, Any]],
    layout: Mapping[str, Any],
    *,
    height: int = 260,
    caption: object = None,
) -> Html:
    """A chart with a title and a caption; page.js draws it."""
    data = {"data": list(traces), "layout": {"height": height, **layout}}
    return tag(
        "figure",
        tag("h3", title),
        tag("div", class_="chart", style=f"min-height:{height}px", role="img", aria_label=title),
        tag("script", embed_json(data), type="application/json", class_="chart-data"),
        *([tag("figcaption", caption)] if caption else []),
    )


def line_chart(
    title: str,
    series: Sequence[Series],
    *,
    x_title: str = "step",
    y_title: str = "",
    x_range: tuple[float, float] | None = None,
    y_range: tuple[float, float] | None = None,
    reference: float | None = None,
    logarithmic: bool = False,
    percent: bool = False,
    percent_x: bool = False,
    steps: bool = False,
    height: int = 260,
    caption: object = None,
) -> Html:
    """Curves over steps or another number; ``reference`` draws a dotted level.

    With ``steps`` a curve keeps each value from the point before up to its own point, instead of going straight.
    """
    traces = [
        {
            "type": "scatter",
            "mode": "lines" if len(one.x) > 1 else "markers",
            "name": label(one.name),
            "x": list(one.x),
            "y": list(one.y),
            "line": {"color": one.color, "width": 1.8, **({"shape": "vh"} if steps else {})},
            "marker": {"color": one.color},
            "hovertemplate": "%{y:.1%}" if percent else "%{y:.3~g}",
        }
        for one in series
    ]
    y_axis: dict[str, Any] = {"type": "log" if logarithmic else "linear"}
    if logarithmic:
        y_axis |= {"dtick": 1}
    if percent:
        y_axis["tickformat"] = PERCENT
    if y_range is not None:
        y_axis["range"] = list(y_range)
    if y_title:
        y_axis["title"] = {"text": label(y_title)}
    shapes = [] if reference is None else [_level(reference)]
    x_axis: dict[str, Any] = {"title": {"text": label(x_title)}}
    if x_range is not None:
        x_axis["range"] = list(x_range)
    if percent_x:
        x_axis["tickformat"] = PERCENT
    layout = {"xaxis": x_axis, "yaxis": y_axis, "shapes": shapes, "hovermode": "x unified"}
    return figure(title, traces, {**layout, "showlegend": len(series) > 1}, height=height, caption=caption)


def _level(value: float) -> dict[str, Any]:
    line = {"color": "--muted", "width": 1, "dash": "dot"}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": value, "y1": value, "line": line}


def bar_chart(
    title: str, rows: Sequence[str], series: Sequence[Series], *, x_title: str = "", caption: object = None
) -> Html:
    """Horizontal bars, a row for each name; muted series are broad, the others lie in front of them."""
    places = list(range(len(rows)))
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": label(one.name),
            "x": list(one.x),
            "y": places,
            "width": 0.78 if one.muted else 0.42,
            "marker": {"color": one.color},
            "customdata": [label(row) for row in rows],
            "hovertemplate": "%{customdata}: %{x}",
        }
        for one in series
    ]
    layout = {"barmode": "overlay", "xaxis": {"title": {"text": label(x_title)}, "rangemode": "tozero"}}
    return figure(title, traces, {**layout, "yaxis": _rows_axis(rows)}, height=_rows_height(rows), caption=caption)


def dot_chart(
    title: str, rows: Sequence[str], series: Sequence[Series], *, x_title: str = "", caption: object = None
) -> Html:
    """A row for each name and a dot for each series: many names stay readable."""
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": label(one.name),
            "x": list(one.x),
            "y": list(range(len(rows))),
            "marker": {
                "color": one.color,
                "size": 11 if one.muted else 9,
                "symbol": "circle-open" if one.muted else "circle",
                "line": {"color": one.color, "width": 2 if one.muted else 0},
            },
            "customdata": [label(row) for row in rows],
            "hovertemplate": "%{customdata}: %{x:.1%}",
        }
        for one in series
    ]
    x_axis = {"title": {"text": label(x_title)}, "rangemode": "tozero", "tickformat": PERCENT}
    return figure(
        title, traces, {"xaxis": x_axis, "yaxis": _rows_axis(rows)}, height=_rows_height(rows), caption=caption
    )


def _rows_axis(rows: Sequence[str]) -> dict[str, Any]:
    """Numbered places with names beside them: equal or cut names cannot fall into one row."""
    return {
        "tickvals": list(range(len(rows))),
        "ticktext": [label(row, LONGEST_LABEL) for row in rows],
        "range": [len(rows) - 0.4, -0.6],
        "automargin": True,
        "showgrid": len(rows) > 12,
        "zeroline": False,
    }


def _rows_height(rows: Sequence[str]) -> int:
    return 110 + ROW_HEIGHT * max(len(rows), 3)


def range_chart(
    title: str,
    rows: Sequence[str],
    pairs: Sequence[tuple[Series, Series]],
    *,
    x_title: str = "",
    caption: object = None,
) -> Html:
    """A row for each name with one bar for each pair; a mark shows where the first of the pair was."""
    high = 0.7 / max(len(pairs), 1)
    traces: list[dict[str, Any]] = []
    for number, (before, after) in enumerate(pairs):
        places = [place + (number - (len(pairs) - 1) / 2) * high for place in range(len(rows))]
        shared = {"y": places, "customdata": [label(row) for row in rows]}
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": label(after.name),
                "x": list(after.x),
                "width": 0.85 * high,
                "marker": {"color": after.color},
                "hovertemplate": "%{customdata}: %{x}",
                **shared,
            }
        )
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": label(before.name),
                "x": list(before.x),
                "marker": {
                    "color": before.color,
                    "size": 11,
                    "symbol": "line-ns-open",
                    "line": {"color": before.color, "width": 2},
                },
                "showlegend": number == len(pairs) - 1,
                "hovertemplate": "%{customdata}: %{x}",
                **shared,
            }
        )
    x_axis = {"title": {"text": label(x_title)}, "rangemode": "tozero"}
    layout = {"barmode": "overlay", "xaxis": x_axis, "yaxis": _rows_axis(rows)}
    return figure(title, traces, layout, height=110 + 32 * max(len(rows), 2), caption=caption)


def heat_map(title: str, names: Sequence[str], values: Sequence[Sequence[float]], *, caption: object = None) -> Html:
    """A square of shares (0 to 1) with the same names down and across."""
    size = list(range(len(names)))
    trace = {
        "type": "heatmap",
        "z": [list(row) for row in values],
        "x": size,
        "y": size,
        "zmin": 0,
        "zmax": 1,
        "colorscale": [[0, "--surface"], [1, "--accent"]],
        "showscale": False,
        "xgap": 1,
        "ygap": 1,
        "text": [[f"{label(true)} → {label(found)}" for found in names] for true in names],
        "hovertemplate": "%{text}: %{z:.1%}<extra></extra>",
    }
    ticks = {"tickvals": size, "ticktext": [label(name, LONGEST_LABEL) for name in names]}
    plain = {"automargin": True, "showgrid": False, "zeroline": False}
    x_axis = {**ticks, **plain, "title": {"text": "predicted class"}, "tickangle": -90}
    y_axis = {**ticks, **plain, "title": {"text": "true class"}, "autorange": "reversed"}
    height = 190 + 18 * max(len(names), 4)
    return figure(title, [trace], {"xaxis": x_axis, "yaxis": y_axis}, height=height, caption=caption)


def scatter_chart(
    title: str,
    series: Sequence[Series],
    *,
    ranges: tuple[tuple[float, float], tuple[float, float]] | None = None,
    caption: object = None,
) -> Html:
    """Points in the plane, without scales: only their places relative to each other mean something.

    ``ranges`` of x and y make several charts comparable.
    """
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": label(one.name),
            "x": list(one.x),
            "y": list(one.y),
            "marker": {"color": one.color, "size": 5, "opacity": 0.6},
            "hoverinfo": "name",
        }
        for one in series
    ]
    bare = {
        "showticklabels": False,
        "zeroline": False,
        "showgrid": False,
        "ticks": "",
        "showline": True,
        "mirror": True,
    }
    margin = {"l": 2, "r": 2, "t": 8, "b": 2}
    axes = [bare if one is None else {**bare, "range": list(one)} for one in ranges or (None, None)]
    layout = {"xaxis": axes[0], "yaxis": axes[1], "margin": margin}
    return figure(title, traces, layout, height=330, caption=caption)


def grid(*charts: object) -> Html:
    """Charts side by side where there is room, else below each other."""
    return tag("div", *charts, class_="grid")
