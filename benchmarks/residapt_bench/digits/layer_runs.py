"""The two-stream network's choice of separate layers: a run of every combination, the lowest MMD wins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from residapt.errors import DataError
from residapt.models.specs import build_model
from residapt_bench.digits.layer_choice import Layers, choose_layers, layer_combinations
from residapt_bench.digits.plan import Plan
from residapt_bench.digits.recipe_plans import recipe_plans
from residapt_bench.report.markdown import markdown

NOTE = "layers"


def layer_plans(task: str, arch: str, *, seed: int, steps: int, changes: Sequence[str] = ()) -> list[Plan]:
    """A short run of each combination of separate layers."""
    plans = []
    for layers in layer_combinations(build_model(arch, num_classes=10)):
        chosen = f"two_stream.layers=[{', '.join(repr(name) for name in layers)}]"
        note = f"{NOTE} {'+'.join(layers) or 'none'}"
        plans += recipe_plans(
            task, arch, ["two_stream"], [seed], recipe="common", steps=steps, changes=[*changes, chosen], note=note
        )
    return plans


def layer_table(records: Sequence[dict[str, Any]]) -> str:
    """Every combination with its MMD, the lowest first; the accuracy stands beside it and is not chosen by."""
    found: dict[Layers, dict[str, Any]] = {}
    for record in records:
        if record["plan"]["note"].startswith(f"{NOTE} ") and "stream_mmd" in record:
            found[tuple(record["plan"]["settings"]["two_stream"]["layers"])] = record
    if not found:
        raise DataError("the records have no runs of residapt bench layers.")
    best = choose_layers({layers: record["stream_mmd"] for layers, record in found.items()})
    rows = []
    for layers, record in sorted(found.items(), key=lambda item: item[1]["stream_mmd"]):
        name = ", ".join(layers) or "none"
        score = f"{record['stream_mmd']:.5f}"
        rows.append((f"**{name}**" if layers == best else name, score, f"{record['accuracy']['target_test']:.1f}"))
    return markdown(("separate layers", "MMD²", "target test"), rows)
