"""The two-stream network's choice of separate layers: the combination with the lowest MMD between the streams."""

from __future__ import annotations

from collections.abc import Sequence

from residapt.errors import DataError
from residapt_bench.digits.layer_choice import Layers, choose_layers
from residapt_bench.record import Record
from residapt_bench.report.markdown import markdown

SWEPT = "two_stream.layers"


def layer_table(records: Sequence[Record]) -> str:
    """Every combination with its MMD, the lowest first; the accuracy stands beside it and is not chosen by."""
    found: dict[Layers, tuple[float, float]] = {}
    for record in records:
        if record.plan.swept == SWEPT and record.stream_mmd is not None:
            found[tuple(record.plan.setting(SWEPT))] = record.stream_mmd, record.target
    if not found:
        raise DataError(f"the records have no sweep of {SWEPT}.")
    best = choose_layers({layers: mmd for layers, (mmd, _) in found.items()})
    rows = []
    for layers, (mmd, accuracy) in sorted(found.items(), key=lambda item: item[1]):
        name = ", ".join(layers) or "none"
        rows.append((f"**{name}**" if layers == best else name, f"{mmd:.5f}", f"{accuracy:.1f}"))
    return markdown(("separate layers", "MMD²", "target test"), rows)
