"""Discrepancies by name."""

from __future__ import annotations

from typing import cast

from residapt.losses.adversarial import Confusion
from residapt.methods.config import DiscrepancyConfig, DiscrepancyName
from residapt.methods.discrepancy import Adversarial, Discrepancy
from residapt.streams import Outputs


def build_discrepancy(config: DiscrepancyConfig, default: DiscrepancyName, sizes: Outputs) -> Discrepancy:
    """The discrepancy that the configuration names, or the method's own, for outputs of the given sizes."""
    kind = config.kind or default
    return Adversarial(
        sizes.features.shape[1],
        confusion=cast(Confusion, kind),
        hidden=config.hidden,
        dropout=config.dropout,
        seed=config.seed,
    )
