"""Precision and recall of the positive class, before and after adaptation."""

from __future__ import annotations

from residapt.report.charts import Series, line_chart
from residapt.report.html import Html, join, tag
from residapt.report.page import Section, badge
from residapt.report.run_data import RunData
from residapt.report.tables import Column, table
from residapt.report.words import count
from residapt.storage.summary import ScoredDetection

MEANING = (
    "Images are ranked by the predicted probability of '{positive}', and those above a threshold are predicted "
    "positive. Recall is the share of positive images that are found, precision the share of found images that are "
    "positive. Average precision (AP) is the area below the curve: 1 is perfect, and a random ranking has "
    "{chance:.3f}, the share of '{positive}' among the images (dotted)."
)
STYLES = {"source_only": ("source only", "--before"), "adapted": ("adapted", "--target")}
"""Name and colour of each stage."""


def detection_section(data: RunData) -> Section | None:
    """The curve, and AP as a table; only where there is a positive class."""
    if data.summary is None or not data.summary.detections:
        return None
    found = data.summary.detections
    first = found[0].detection
    chance = first.positives / (first.positives + first.negatives)
    parts = [
        tag("p", MEANING.format(positive=first.positive, chance=chance)),
        line_chart(
            f"Precision and recall of {first.positive}",
            [_series(one) for one in found],
            x_title="recall",
            y_title="precision",
            x_range=(0, 1),
            y_range=(0, 1.02),
            reference=chance,
            steps=True,
            height=340,
        ),
        _table(found),
    ]
    return Section("detection", "Precision and recall", join(parts), "Detection")


def _series(one: ScoredDetection) -> Series:
    """The curve begins at recall 0 with the precision of the first threshold."""
    name, color = STYLES[one.stage]
    curve = one.detection.curve
    x, y = [0.0, *(point.recall for point in curve)], [curve[0].precision, *(point.precision for point in curve)]
    return Series(f"{name}, AP {one.detection.average_precision:.3f}", x, y, color)


def _table(found: list[ScoredDetection]) -> Html:
    columns: list[str | Column] = ["scored set", "network", Column("AP", True), "protocol"]
    rows = [
        (
            one.name,
            STYLES[one.stage][0],
            tag("strong" if one.stage == "adapted" else "span", f"{one.detection.average_precision:.3f}"),
            badge(one.protocol),
            count(one.detection.positives),
            count(one.detection.negatives),
        )
        for one in found
    ]
    columns += [Column("positive images", True), Column("others", True)]
    caption = f"Average precision of '{found[0].detection.positive}'; labels were used for scoring only."
    return table(columns, rows, caption=caption)
