"""Losses, domain accuracy, ranks, accuracy and scores over time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from residapt.evaluate.scores import SCORES
from residapt.report.charts import SERIES, Series, grid, line_chart
from residapt.report.html import Html, join, tag
from residapt.report.page import Section
from residapt.report.run_data import Curve, RunData
from residapt.report.words import score_name

MOST_POINTS = 600
"""Points of a curve that a page draws; more cannot be seen."""
WATCHED = ("domain_accuracy", "energy", "prior_distance", "total")
"""Values of a step that are no losses."""
SCORES_MEANING = "On at most 500 images of each domain; higher is better. Step 0 is the source network."
LOSSES = {
    "class": "errors on the labelled source images",
    "target_class": "errors on the labelled target images",
    "confusion": "how far the network is from confusing the domain classifier",
    "domain": "errors of the domain classifier",
    "information": "entropy of the target predictions, and how far their class frequencies are from the assumed",
    "stream": "how far the distance of the two streams' weights is from its set value (1 at best)",
    "rank": "penalty that lowers the ranks",
    "total": "sum of all losses by weight",
}


def curves_section(data: RunData) -> Section | None:
    """All curves, the adaptation first."""
    found = data.metrics.curves
    charts: list[Html] = []
    if ("adapt", "step") in found:
        charts += _adaptation(found["adapt", "step"], data.metrics.ranks)
    for (stage, kind), curves in found.items():
        if kind == "accuracy":
            charts.append(_accuracy(curves, stage))
    if ("source", "step") in found:
        charts.append(_losses("Training of the source network", found["source", "step"]))
    scores = _scores(found.get(("adapt", "scores"), {}))
    if not charts and not scores:
        return None
    small: list[Html] = []
    if scores:
        small = [
            tag("h3", "Label-free scores"),
            tag("p", SCORES_MEANING, class_="muted small"),
            tag("div", *scores, class_="grid small-charts"),
        ]
    # Of a run that has not finished the curves are all there is.
    return Section("curves", "Over time", join([grid(*charts), *small]), "Curves", folds=data.summary is not None)


def _adaptation(curves: dict[str, Curve], ranks: Curve) -> list[Html]:
    charts = [_losses("Losses of the adaptation", curves)]
    if "domain_accuracy" in curves:
        caption = (
            "Share of images whose domain is recognised: at 50% the domains look alike, at 100% they are fully apart."
        )
        series = [_series("domain accuracy", curves["domain_accuracy"], "--series-2")]
        charts.append(
            _over_steps("Domain classifier", series, y_range=(0.0, 1.03), reference=0.5, percent=True, caption=caption)
        )
    if "energy" in curves:
        caption = "How far the target's weights are from the source's; the stream loss keeps it near 1 (dotted)."
        charts.append(_energy(curves["energy"], caption))
    if "prior_distance" in curves:
        caption = "Share of the images in which the class frequencies assumed for the target differ from the source's."
        series = [_series("distance", curves["prior_distance"], "--series-1")]
        charts.append(_over_steps("Class frequencies", series, percent=True, caption=caption))
    if ranks:
        caption = "The lower, the more of the network both domains share."
        charts.append(_over_steps("Sum of all ranks", [_series("ranks", ranks, "--series-4")], caption=caption))
    return charts


def _energy(curve: Curve, caption: str) -> Html:
    positive = [value for value in curve.values() if value > 0]
    wide = bool(positive) and max(positive) > 20 * min(positive)
    series = [_series("energy", curve, "--series-3")]
    return _over_steps("Distance of the streams", series, reference=1.0, logarithmic=wide, caption=caption)


def _losses(title: str, curves: dict[str, Curve]) -> Html:
    names = [name for name in curves if name not in WATCHED] or [name for name in curves if name == "total"]
    series = [_series(name, curves[name], color) for name, color in zip(names, _colors(), strict=False)]
    known = [join([tag("b", name), f": {LOSSES[name]}"]) for name in names if name in LOSSES]
    return _over_steps(title, series, caption=join([join(known, "; "), "."]) if known else None)


def _accuracy(curves: dict[str, Curve], stage: str) -> Html:
    series = [
        _series(name, {step: value / 100 for step, value in curve.items()}, color)
        for (name, curve), color in zip(curves.items(), _colors(), strict=False)
    ]
    title = "Accuracy of the source network" if stage == "source" else "Accuracy of the adaptation"
    return _over_steps(
        title,
        series,
        percent=True,
        caption="For the record: target labels are not used in training. Step 0 is the source network.",
    )


def _scores(curves: dict[str, Curve]) -> list[Html]:
    """One small chart each: the scores have scales of their own."""
    return [
        _over_steps(
            score_name(name),
            [_series(name, curve, "--series-1")],
            x_title="",
            height=170,
            caption=SCORES[name].explanation if name in SCORES else None,
        )
        for name, curve in curves.items()
    ]


def _over_steps(title: str, series: list[Series], **options: Any) -> Html:
    """A chart whose axis begins at step 0, also where a curve begins later."""
    last = max((step for one in series for step in one.x), default=0)
    return line_chart(title, series, x_range=(0, max(last, 1)), **options)


def _series(name: str, curve: Curve, color: str) -> Series:
    steps = sorted(curve)
    if len(steps) > MOST_POINTS:
        stride = -(-len(steps) // MOST_POINTS)
        # The last point stays: it is the result.
        steps = sorted({*steps[::stride], steps[-1]})
    return Series(name.replace("_", " "), steps, [curve[step] for step in steps], color)


def _colors() -> Iterable[str]:
    while True:
        yield from SERIES
