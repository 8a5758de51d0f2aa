"""Settings of the methods."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from residapt.rank import RankConfig
from residapt.settings import Settings
from residapt.transform import TransformConfig

DiscrepancyName = Literal["flip", "reversal", "uniform", "mmd", "mk_mmd", "coral", "rman", "cdan", "cdan_e"]


class DiscrepancyConfig(Settings):
    """The loss that pulls the domains together."""

    kind: DiscrepancyName | None = None
    """Which discrepancy; None takes the method's own."""
    weight: float = Field(1.0, ge=0)
    """Weight of the discrepancy in the network's loss."""
    gamma: float = Field(10.0, ge=0)
    """Steepness of the ramp of that weight; 0 gives the full weight from the first step."""
    hidden: tuple[int, ...] = (500, 500)
    """Hidden layers of the domain classifier."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout in the domain classifier."""
    seed: int = 0
    """Seed of the domain classifier's start."""


class MethodConfig(Settings):
    """Everything a method can be told."""

    discrepancy: DiscrepancyConfig = DiscrepancyConfig()
    """The loss that pulls the domains together."""
    stream_weight: float = Field(1.0, ge=0)
    """lambda_s of Eq. 7."""
    train_source: bool = True
    """Whether the source stream is trained on together with the transforms."""
    penalty: Literal["prox", "gradient"] = "prox"
    """Ranks by proximal steps, or by back-propagating the penalty of Eq. 11 (an ablation)."""
    rank: RankConfig = RankConfig()
    """Rank selection."""
    transform: TransformConfig = TransformConfig()
    """The transforms."""
