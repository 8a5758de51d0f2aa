"""Settings drawn at random, the same ones for every method: for a comparison with equal tuning.

A recipe that was found on one method may suit it better than another. Here each method is run with the same draws
around the recipe ``plus``, and takes its best by a score that needs no label (:mod:`residapt_bench.report.picked`).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from residapt.data.batches import derived_seed


def _between(low: float, high: float) -> Callable[[random.Random], float]:
    """Evenly on a logarithmic scale, to two digits."""
    return lambda draw: float(f"{math.exp(draw.uniform(math.log(low), math.log(high))):.2g}")


def _one_of(*values: float) -> Callable[[random.Random], float]:
    return lambda draw: draw.choice(values)


SPACE: dict[str, Callable[[random.Random], float]] = {
    "train.network.lr": _between(1e-4, 3e-3),
    "train.transform.lr": _between(1e-4, 3e-3),
    "train.adversary.lr": _between(2e-4, 5e-3),
    "train.beta1": _one_of(0.5, 0.9),
    "discrepancy.weight": _between(0.03, 3.0),
    "discrepancy.gamma": _one_of(2.0, 5.0, 10.0),
    "discrepancy.end": _one_of(0.5, 0.75, 1.0),
    "information.weight": _between(0.1, 3.0),
    "information.gamma": _one_of(2.0, 5.0, 10.0),
    "consistency.weight": _between(0.1, 3.0),
    "consistency.start": _one_of(0.25, 0.5, 0.75),
    "consistency.threshold": _one_of(0.8, 0.9, 0.95),
    "prior.smoothing": _one_of(0.5, 0.9),
}
"""Ranges around the recipe; a method without transforms, or without a domain classifier, has no use for its rate."""


def random_settings(seed: int, count: int) -> list[str]:
    """``count`` settings as one line each (``key=value key=value``); more of one seed begin with the fewer."""
    draw = random.Random(derived_seed("settings", seed))
    return [" ".join(f"{name}={value(draw):g}" for name, value in SPACE.items()) for _ in range(count)]
