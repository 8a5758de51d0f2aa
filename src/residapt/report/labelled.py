"""What labelled images say beyond accuracy: which classes are confused, and whether confidence can be relied on."""

from __future__ import annotations

from residapt.report.charts import Series, grid, heat_map, line_chart
from residapt.report.html import Html, join, tag
from residapt.report.page import Section, badge
from residapt.report.run_data import RunData
from residapt.report.tables import Column, folded, table
from residapt.report.words import count
from residapt.storage.summary import RunSummary, ScoredCalibration

MOST_CLASSES = 40
"""Classes of a confusion matrix that is drawn; of more, only the most frequent confusions are shown."""
MOST_CONFUSIONS = 6
STAGES = {"source_only": "source only", "adapted": "adapted"}
CALIBRATION = (
    "A prediction with a confidence of 80% should be right 8 times out of 10. The expected calibration error (ECE) is "
    "the mean distance between the two; 0 is perfect. "
)
TEMPERATURE = (
    "Dividing the logits by a temperature, {temperature:.2f} here, makes the probabilities fit the held-out source "
    "images; no target label was used, so that it need not fit the target as well. "
)
UNLABELLED = "How far it is off on the target can only be measured with labelled images (--evaluate DIR)."


def confusion_section(data: RunData) -> Section | None:
    """Confusion matrices of the adapted network with class names, and its most frequent confusions."""
    if data.summary is None:
        return None
    scored = [one for one in data.summary.calibrations if one.stage == "adapted"]
    parts = [part for one in scored for part in _confusion(one, data.summary.classes)]
    if not parts:
        return None
    return Section("confusion", "Which classes are confused", join(parts), "Confusion", folds=True)


def _confusion(one: ScoredCalibration, classes: tuple[str, ...]) -> list[Html]:
    shares = [[value / max(sum(row), 1) for value in row] for row in one.confusion]
    wrong = [
        (number, true, found)
        for true, row in enumerate(one.confusion)
        for found, number in enumerate(row)
        if true != found and number
    ]
    top = sorted(wrong, reverse=True, key=lambda item: item[0])[:MOST_CONFUSIONS]
    rows = [(classes[true], classes[found], count(n), f"{shares[true][found]:.0%}") for n, true, found in top]
    columns: list[str | Column] = ["true class", "predicted as", Column("images", True), Column("of the class", True)]
    parts = []
    if len(classes) <= MOST_CLASSES:
        caption = "Share of each true class (row) that is predicted as each class (column), after adaptation."
        parts.append(heat_map(f"Confusion matrix: {one.name}", classes, shares, caption=caption))
    if rows:
        parts.append(table(columns, rows, caption=f"Most frequent confusions on {one.name}, after adaptation."))
    if 1 < len(classes) <= MOST_CLASSES:
        parts.append(folded("All counts as a table", _counts(one, classes)))
    return parts


def _counts(one: ScoredCalibration, classes: tuple[str, ...]) -> Html:
    columns: list[str | Column] = ["true class", *(Column(name, True) for name in classes)]
    rows = [(name, *map(count, row)) for name, row in zip(classes, one.confusion, strict=True)]
    return table(columns, rows, caption=f"Images of {one.name} by true and predicted class.", matrix=True)


def calibration_section(data: RunData) -> Section | None:
    """The temperature; with labels also the calibration error and the reliability diagram."""
    summary = data.summary
    if summary is None or summary.temperature is None:
        return None
    lead = [CALIBRATION, TEMPERATURE.format(temperature=summary.temperature)]
    if not summary.calibrations:
        body = [tag("p", *lead, UNLABELLED)]
    else:
        body = [tag("p", *lead), _table(summary), *_diagrams(summary)]
    return Section("calibration", "Can the confidence be relied on?", join(body), "Calibration", folds=True)


def _table(summary: RunSummary) -> Html:
    columns: list[str | Column] = ["scored set", "network", Column("ECE", True), Column("with temperature", True)]
    rows = [
        (
            one.name,
            STAGES[one.stage],
            f"{100 * one.plain.error:.1f}%",
            f"{100 * one.scaled.error:.1f}% (T = {one.scaled.temperature:.2f})",
            badge(one.protocol),
        )
        for one in summary.calibrations
    ]
    caption = "Expected calibration error; labels were used for scoring only."
    return table([*columns, "protocol"], rows, caption=caption)


def _diagrams(summary: RunSummary) -> list[Html]:
    charts = []
    for one in summary.calibrations:
        if one.stage != "adapted":
            continue
        series = [Series("perfect", [0, 1], [0, 1], "--muted")]
        for name, found, color in (("as it is", one.plain, "--target"), ("with temperature", one.scaled, "--source")):
            x, y = ([getattr(point, key) for point in found.bins] for key in ("confidence", "accuracy"))
            series.append(Series(name, x, y, color))
        charts.append(
            line_chart(
                f"Confidence and accuracy: {one.name}, adapted",
                series,
                x_title="confidence",
                y_title="accuracy",
                x_range=(0.0, 1.0),
                y_range=(0.0, 1.03),
                percent=True,
                percent_x=True,
            )
        )
    return [grid(*charts)]
