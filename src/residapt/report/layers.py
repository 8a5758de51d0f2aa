"""Ranks of the layers in which the domains differ, and what they mean."""

from __future__ import annotations

from residapt.report.charts import Series, range_chart
from residapt.report.html import Html, join, tag
from residapt.report.page import Section
from residapt.report.run_data import RunData
from residapt.report.tables import Column, folded, table
from residapt.report.words import count, plural
from residapt.storage.summary import LayerRanks, RunSummary

MOST_ROWS = 20
"""Rows of the chart; the table has all layers."""
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
    parts = [
        tag("p", MEANING),
        tag("p", tag("strong", finding(ranks))),
        *_chart(ranks),
        folded(f"All {plural(len(ranks), 'layer')} as a table", _table(ranks)),
        *_parameters(data.summary),
    ]
    return Section("ranks", "Where the domains differ", join(parts), "Ranks", folds=True)


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


def _chart(ranks: list[LayerRanks]) -> list[Html]:
    """Layers that keep a rank, in the network's order; of many those that keep most."""
    kept = [layer for layer in ranks if min(layer.after) > 0]
    if not kept:
        return []
    most = sorted(kept, key=_used, reverse=True)[:MOST_ROWS]
    shown = [layer for layer in kept if layer in most]
    pairs = [
        (
            Series("at the start", [layer.before[place] for layer in shown], [], "--muted"),
            Series(name, [layer.after[place] for layer in shown], [], color),
        )
        for place, name, color in ((0, "left rank l (outputs)", "--target"), (1, "right rank r (inputs)", "--source"))
    ]
    left = len(kept) - len(shown)
    more = f" {plural(left, 'more such layer is', 'more such layers are')} in the table." if left else ""
    caption = f"Layers in which the domains differ: number of directions that change.{more}"
    return [range_chart("Ranks", [layer.layer for layer in shown], pairs, x_title="rank", caption=caption)]


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
