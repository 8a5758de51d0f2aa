"""Both domains before and after: overlap of features, class frequencies, changed and unusual images."""

from __future__ import annotations

import re
from collections.abc import Sequence

from residapt.report.charts import Series, dot_chart, grid, scatter_chart
from residapt.report.html import Html, join, tag
from residapt.report.page import Section
from residapt.report.run_data import RunData
from residapt.report.tables import Column, folded, table
from residapt.report.words import count, plural
from residapt.storage.summary import RunSummary

Cloud = Sequence[tuple[float, float]]
MOST_POINTS = 800
"""Points of each domain in a scatter plot."""
MOST_CLASSES = 40
"""Rows of the frequency chart; the table below it has all."""
SHOWN = 12
"""Changed images that are shown at once; the others are folded."""
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
    return Section("overlap", "Do the domains overlap?", join(parts), "Overlap", folds=True)


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
            "Adaptation tends to move the target's frequencies towards those of the source. If they really differ, "
            "this is where it goes wrong first. ",
            "Here the source images were weighted to the frequencies that are assumed for the target."
            if "target_assumed" in summary.frequencies
            else "The setting prior.kind = estimated estimates them without labels.",
        ),
        dot_chart("Share of the images by class", names, series, caption=caption),
        folded("All classes as a table", _frequency_table(summary)),
    ]
    return Section("classes", "Class frequencies", join(parts), "Classes", folds=True)


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
        f"Look at these {len(summary.changed)}, sampled over the new classes and their confidence: are the new classes "
        "right?"
    )
    # Every other one first, so that what is shown has all levels of confidence as well.
    shown = summary.changed if len(summary.changed) <= SHOWN else [*summary.changed[::2], *summary.changed[1::2]]
    cards = [
        _card(
            one.path,
            one.thumbnail,
            tag("s", one.before),
            join([tag("span", "→ ", class_="muted"), tag("strong", one.after), f" {one.probability:.0%}"]),
        )
        for one in shown
    ]
    parts = [tag("p", lead), tag("div", *cards[:SHOWN], class_="cards")]
    if cards[SHOWN:]:
        parts.append(folded(f"{len(cards[SHOWN:])} more", tag("div", *cards[SHOWN:], class_="cards")))
    return Section("changed", "Predictions that changed", join(parts), "Changes")


def unusual_section(data: RunData) -> Section | None:
    """Target images that look least like any class."""
    summary = data.summary
    if summary is None or not summary.unusual:
        return None
    verb = "is" if summary.unusual_count == 1 else "are"
    lead = (
        f"These {len(summary.unusual)} target images look least like any of the classes: their logits are small, and "
        "their features are far from every class. Look for images of something else, or of nothing: they are better "
        "removed from the target before the next run. "
        f"{plural(summary.unusual_count, 'target image')} {verb} more unusual than "
        "99% of the held-out source images in both respects."
    )
    cards = [
        _card(one.path, one.thumbnail, join([tag("strong", one.predicted), f" {one.probability:.0%}"]))
        for one in summary.unusual
    ]
    body = join([tag("p", lead), tag("div", *cards, class_="cards")])
    return Section("unusual", "Images that look least like any class", body, "Unusual", folds=True)


def _card(path: str, thumbnail: str, *lines: Html) -> Html:
    picture = tag("div", "no picture", class_="picture empty")
    if BASE64.fullmatch(thumbnail):
        picture = tag("img", src=f"data:image/jpeg;base64,{thumbnail}", alt=path, class_="picture")
    return tag(
        "div",
        picture,
        *(tag("p", line) for line in lines),
        tag("p", path, class_="path muted", title=path),
        class_="card",
    )
