"""Schedules as pure functions of training progress p in [0, 1]; nothing to save, nothing to lose on resume."""

from __future__ import annotations

import math
from typing import Literal

Decay = Literal["constant", "inverse", "cosine", "linear"]


def ramp(progress: float, gamma: float = 10.0) -> float:
    r"""Weight of the confusion loss, :math:`2/(1+e^{-\gamma p}) - 1` (Ganin et al. 2016); 1 throughout for gamma 0."""
    return 1.0 if gamma == 0 else 2.0 / (1.0 + math.exp(-gamma * progress)) - 1.0


def decay(kind: Decay, progress: float) -> float:
    r"""Factor of the learning rate; ``inverse`` is :math:`(1+10p)^{-0.75}` (Ganin et al. 2016)."""
    if kind == "inverse":
        return float((1.0 + 10.0 * progress) ** -0.75)
    if kind == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * progress))
    if kind == "linear":
        return 1.0 - progress
    return 1.0
