"""How long a run adapted: runs of different lengths are different rows and are never paired."""

from __future__ import annotations

from typing import Any


def adaptation_steps(plan: dict[str, Any]) -> int:
    """Steps of adaptation; 0 for a warm start as it is, whatever length its grid had."""
    started = plan["method"] == "source_only" and plan["source"]["steps"] > 0
    return 0 if started else int(plan["train"]["steps"])
