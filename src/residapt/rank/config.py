"""Settings of rank selection; importing this module does not import torch."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from residapt.settings import Settings


class RankConfig(Settings):
    """How ranks are found.

    Example:
        >>> [step for step in range(1, 9) if RankConfig(every=2, start=4).due(step)]
        [4, 6, 8]
    """

    weight: float = Field(1.0, ge=0)
    """lambda_r of Eq. 11; 0 keeps the ranks."""
    step: float = Field(3e-3, gt=0)
    """t of Eq. 12. How far ranks fall is t x lambda_r x number of prox steps against the norm of T's columns."""
    every: int = Field(200, ge=1)
    """Optimiser steps between two proximal steps (N of Algorithm 1)."""
    start: int = Field(0, ge=0)
    """No proximal step before this optimiser step."""
    end: int | None = Field(None, ge=1)
    """No proximal step after this optimiser step: what is left then trains on without being shrunk."""
    prox: Literal["two-step", "split", "exact"] = "two-step"
    """The paper's two steps (Eq. 13), the same at the thresholds of Eq. 12, or the exact solution of Eq. 12."""
    group_weights: Literal["layer", "group", "equal"] = "layer"
    """sqrt(N), sqrt(C) as printed in Eq. 10; the size of each group, sqrt(l), sqrt(r); or equal: relative to what a
    group of its own layer has at the start, so that a layer's shape does not decide whether it keeps its ranks."""
    epsilon: ClassVar[float] = 1e-8
    """Rows and columns of T with a norm up to this share of the largest are removed."""

    def due(self, step: int) -> bool:
        """Whether a proximal step follows optimiser step number ``step`` (counted from 1)."""
        last = step if self.end is None else self.end
        return self.weight > 0 and self.start <= step <= last and step % self.every == 0
