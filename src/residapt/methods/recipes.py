"""Recipes: named sets of settings for a whole run. Explicit settings override them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RECIPES: dict[str, Mapping[str, Any]] = {
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
    "default": {
        "discrepancy": {"weight": 0.3, "kind": "reversal", "normalise": True},
        "information": {"kind": "confusion", "weight": 1.0},
        "consistency": {"weight": 1.0, "kind": "fixmatch", "threshold": 0.9},
        "average": {"decay": 0.99},
        "rank": {"group_weights": "equal"},
        "train": {"adversary": {"lr": 1e-3}, "beta1": 0.9, "warmup": 0.05},
    },
}
"""Settings of each recipe, as nested values of :class:`residapt.config.Config`. A new recipe is a new entry here.

``paper`` is the paper's method: every setting at its default. ``plus`` also fits the class frequencies of the target
and confident predictions (docs/research/beyond.md); neither random changes of source images nor standardised images are
part of it, since which of these help depends on the images.
"""
