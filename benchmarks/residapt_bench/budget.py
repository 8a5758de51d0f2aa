"""How long a run adapted: runs of different lengths are different rows and are never paired."""

from __future__ import annotations

from typing import Any


def is_warm_start(method: str, source_steps: int) -> bool:
    """Whether a run is the source network as it is: the warm start is the source-only network already."""
    return method == "source_only" and source_steps > 0


def adaptation_steps(plan: dict[str, Any]) -> int:
    """Steps of adaptation; 0 for a warm start as it is, whatever length its grid had."""
    source_steps = plan.get("source", {}).get("steps", 0)
    return 0 if is_warm_start(plan["method"], source_steps) else int(plan["train"]["steps"])
