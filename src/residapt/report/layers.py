"""Ranks of each layer before and after, and what they mean."""

from __future__ import annotations

from residapt.report.charts import Series, bar_chart, grid
from residapt.report.html import Html, join, tag
from residapt.report.page import Section
from residapt.report.run_data import RunData
from residapt.report.tables import Column, folded, table
from residapt.report.words import count, plural
from residapt.storage.summary import LayerRanks, RunSummary

MEANING = (
    "The target network is the source network plus a small change of each layer. The rank says how rich that change "
    "is: 0 means that the layer is the same for both domains, a high rank that the domains differ in what this layer "
    "looks at. Ranks start at an upper limit and fall as far as the data allow."
)


def ranks_section(data: RunData) -> Section | None:
    """Bars, a sentence, and the exact numbers."""
    if data.summary is None or not data.summary.ranks:
        return None
    ranks = data.summary.ranks
    charts = [
        _bars(f"{side} rank ({letter})", ranks, place) for place, side, letter in ((0, "Left", "l"), (1, "Right", "r"))
    ]
    parts = [
        tag("p", MEANING),
        tag("p", tag("strong", finding(ranks))),
        grid(*charts),
        folded("All layers as a table", _table(ranks)),
        *_parameters(data.summary),
    ]
    return Section("ranks", "Where the domains differ", join(parts), "Ranks")


def finding(ranks: list[LayerRanks]) -> str:
    """What the ranks say, in a sentence or two."""
    kept = [layer for layer in ranks if min(layer.after) > 0]
    if not kept:
        return "All layers are shared: the domains differ in none of them."
    shared = len(ranks) - len(kept)
    said = (
        f"{plural(shared, 'layer')} of {len(ranks)} {'is' if shared == 1 else 'are'} shared by both domains. "
        if shared
        else ""
    )
    top = max(kept, key=_used)
    left, right = (f"{now} of {was}" for now, was in zip(top.after, top.before, strict=True))
    most = f"The domains differ most in {top.layer} (l {left}, r {right})."
    if all(layer.after == layer.before for layer in ranks):
        return "No rank has fallen: every layer keeps all of the change it was allowed."
    return said + most


def _used(layer: LayerRanks) -> float:
    """Share of the allowed ranks that is left, so that layers of different width compare."""
    return sum(layer.after) / max(sum(layer.before), 1)


def _bars(title: str, ranks: list[LayerRanks], place: int) -> Html:
    rows = [layer.layer for layer in ranks]
    before = Series("before", [layer.before[place] for layer in ranks], [], "--shade", muted=True)
    after = Series("after", [layer.after[place] for layer in ranks], [], "--target")
    what = "outputs" if place == 0 else "inputs"
    return bar_chart(
        title, rows, [before, after], x_title="rank", caption=f"Directions among the layer's {what} that change."
    )


def _table(ranks: list[LayerRanks]) -> Html:
    columns: list[str | Column] = [
        "layer",
        Column("outputs × inputs", True),
        Column("before (l, r)", True),
        Column("after (l, r)", True),
    ]
    rows = [
        (
            layer.layer,
            f"{count(layer.shape[0])} × {count(layer.shape[1])}",
            "{}, {}".format(*layer.before),
            "{}, {}".format(*layer.after),
        )
        for layer in ranks
    ]
    return table(columns, rows, caption="Ranks of the transformed layers.")


def _parameters(summary: RunSummary) -> list[Html]:
    if not summary.parameters:
        return []
    rows = [(name.replace("_", " "), count(number)) for name, number in summary.parameters.items()]
    return [table(["", Column("parameters", True)], rows, caption="How many parameters there are.", compact=True)]
