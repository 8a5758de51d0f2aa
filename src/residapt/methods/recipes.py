"""Recipes: named sets of settings for a whole run. Explicit settings override them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from residapt.methods.names import TARGET_PARTS

RECIPES: dict[str, Mapping[str, Any]] = {
    "default": {
        "discrepancy": {"weight": 0.3, "kind": "reversal", "normalise": True},
        "information": {"kind": "confusion", "weight": 1.0},
        "consistency": {"weight": 1.0, "kind": "fixmatch", "threshold": 0.9},
        "average": {"decay": 0.99},
        "rank": {"group_weights": "equal"},
        "train": {"adversary": {"lr": 1e-3}, "beta1": 0.9, "warmup": 0.05},
    },
    "paper": {},
    "plus": {
        "prior": {"kind": "estimated", "decay": 0.995},
        "information": {"weight": 1.0},
        "discrepancy": {"end": 0.5},
        "consistency": {"weight": 1.0, "kind": "fixmatch", "start": 0.5},
    },
    "source-free": {
        "information": {"weight": 1.0, "gamma": 0.0},
        "consistency": {"weight": 1.0, "kind": "fixmatch", "start": 0.2},
        "average": {"decay": 0.99},
        "rank": {"group_weights": "equal"},
        "train": {"beta1": 0.9, "warmup": 0.05},
    },
}
"""Settings of each recipe, as nested values of :class:`residapt.config.Config`. A new recipe is a new entry here.

``default`` was chosen on the proving ground (docs/research/proving-ground.md): strong views, minimum class confusion,
averaged weights. ``paper`` is the paper's method: every setting at its default. ``plus`` fits the class frequencies of
the target (docs/research/beyond.md) and is meant for domains whose images differ in appearance alone.
``source-free`` is taken where there are no source images.
"""

ANY_DISCREPANCY = ("rpt", "rpt_fixed", "two_stream", "dsn", *TARGET_PARTS)
"""Methods that work with any discrepancy; all others are one, which no recipe changes."""


def recipe_settings(recipe: str, method: str) -> Mapping[str, Any]:
    """The settings of a recipe for a method; none where there is no such recipe."""
    found = RECIPES.get(recipe, {})
    if method in ANY_DISCREPANCY or "discrepancy" not in found:
        return found
    discrepancy = {name: value for name, value in found["discrepancy"].items() if name != "kind"}
    return {**found, "discrepancy": discrepancy}
