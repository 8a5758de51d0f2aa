"""Both domains before and after: overlap of features, class frequencies, and images whose class changed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from residapt.report.charts import Series, dot_chart, grid, scatter_chart
from residapt.report.html import Html, join, tag
from residapt.report.page import Section
from residapt.report.run_data import RunData
from residapt.report.tables import Column, folded, table
from residapt.report.words import count, plural
from residapt.storage.summary import ChangedPrediction, RunSummary

Cloud = Sequence[tuple[float, float]]
MOST_POINTS = 800
"""Points of each domain in a scatter plot."""
MOST_CLASSES = 40
"""Rows of the frequency chart; the table below it has all."""
BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
FREQUENCIES = {
    "source": ("source, labels", "--source", True),
    "before": ("target, before", "--before", False),
    "after": ("target, after", "--target", False),
    "assumed": ("target, assumed in training", "--series-4", True),
}
"""Title, colour and whether it is drawn as an open dot, by the word that its key contains."""


def overlap_section(data: RunData) -> Section | None:
    """Two scatter plots."""
    if data.summary is None:
        return None
    points = data.summary.projection
    before, after = (points.source_before, points.target_before), (points.source_after, points.target_after)
    if not any((*before, *after)):
        return None
    # All four clouds share their axes, so that what moved can be seen.
    ranges = (_range([*before, *after], 0), _range([*before, *after], 1))
    parts = [
        tag(
            "p",
            "Each point is an image, placed by the features that the domain classifier reads. Where the colours mix, "
            "the network treats both domains alike, and what it learned on the source can be trusted on the target. "
            "Mixing alone is no proof: the classes must meet as well, which only labels can show.",
        ),
        grid(_scatter("Before adaptation", *before, ranges), _scatter("After adaptation", *after, ranges)),
    ]
    return Section("overlap", "Do the domains overlap?", join(parts), "Overlap")


def _range(clouds: Sequence[Cloud], place: int) -> tuple[float, float]:
    values = [point[place] for cloud in clouds for point in cloud]
    edge = 0.05 * (max(values) - min(values)) or 1.0
    return min(values) - edge, max(values) + edge


def _scatter(title: str, source: Cloud, target: Cloud, ranges: tuple[tuple[float, float], tuple[float, float]]) -> Html:
    series = [_points("source", source, "--source"), _points("target", target, "--target")]
    return scatter_chart(title, series, ranges=ranges)


def _points(name: str, points: Cloud, color: str) -> Series:
    stride = max(1, -(-len(points) // MOST_POINTS))
    shown = points[::stride]
    return Series(name, [point[0] for point in shown], [point[1] for point in shown], color)


def frequencies_section(data: RunData) -> Section | None:
    """How often each class occurs."""
    summary = data.summary
    if summary is None or not summary.frequencies:
        return None
    rows = _shown_classes(summary)
    names = [summary.classes[row] for row in rows]
    series = [
        Series(title, [values[row] for row in rows], [], color, muted)
        for values, (title, color, muted) in ((values, _look(key)) for key, values in summary.frequencies.items())
    ]
    hidden = len(summary.classes) - len(rows)
    caption = (
        f"The {len(rows)} classes that changed most; {plural(hidden, 'more is', 'more are')} in the table."
        if hidden
        else None
    )
    parts = [
        tag(
            "p",
            "How often each class is predicted on the target, beside its frequency among the source's labels. "
            "Adaptation tends to draw the target's frequencies to those of the source: if yours really differ, this is "
            "where it goes wrong first. ",
            "Here the source images were weighted to the frequencies that are assumed for the target."
            if "target_assumed" in summary.frequencies
            else "The setting prior.kind = estimated finds them without labels.",
        ),
        dot_chart("Share of the images by class", names, series, caption=caption),
        folded("All classes as a table", _frequency_table(summary)),
    ]
    return Section("classes", "Class frequencies", join(parts), "Classes")


def _look(key: str) -> tuple[str, str, bool]:
    for word, look in FREQUENCIES.items():
        if word in key:
            return look
    return key.replace("_", " "), "--series-4", False


def _shown_classes(summary: RunSummary) -> list[int]:
    everything = range(len(summary.classes))
    if len(summary.classes) <= MOST_CLASSES:
        return list(everything)
    columns = list(summary.frequencies.values())
    spread = {
        row: max(column[row] for column in columns) - min(column[row] for column in columns) for row in everything
    }
    return sorted(sorted(everything, key=lambda row: -spread[row])[:MOST_CLASSES])


def _frequency_table(summary: RunSummary) -> Html:
    columns: list[str | Column] = ["class", *(Column(_look(key)[0], True) for key in summary.frequencies)]
    rows = [
        (name, *(f"{100 * values[row]:.1f}%" for values in summary.frequencies.values()))
        for row, name in enumerate(summary.classes)
    ]
    return table(columns, rows, caption="Class frequencies.")


def changed_section(data: RunData) -> Section | None:
    """Target images whose predicted class changed."""
    summary = data.summary
    if summary is None or not summary.changed:
        return None
    lead = (
        f"{count(summary.changed_count)} of {plural(summary.target_images, 'target image')} got another class. "
        f"Look at these {len(summary.changed)}: are the new classes right?"
    )
    cards = tag("div", *map(_card, summary.changed), class_="cards")
    return Section("changed", "Predictions that changed", join([tag("p", lead), cards]), "Changes")


def _card(item: ChangedPrediction) -> Html:
    picture = tag("div", "no picture", class_="picture empty")
    if BASE64.fullmatch(item.thumbnail):
        picture = tag("img", src=f"data:image/jpeg;base64,{item.thumbnail}", alt=item.path, class_="picture")
    new = tag("p", tag("span", "→ ", class_="muted"), tag("strong", item.after), f" {item.probability:.0%}")
    return tag(
        "div",
        picture,
        tag("p", tag("s", item.before)),
        new,
        tag("p", item.path, class_="path muted", title=item.path),
        class_="card",
    )
