"""Discrepancies by name."""

from __future__ import annotations

from typing import cast

from torch import Tensor

from residapt.errors import ConfigError
from residapt.losses.adversarial import Confusion
from residapt.methods.config import DiscrepancyConfig, DiscrepancyName
from residapt.methods.discrepancy.base import Adversarial, Discrepancy
from residapt.methods.discrepancy.layers import PENULTIMATE, resolve_layer
from residapt.methods.discrepancy.moments import DISTANCES, Moments
from residapt.methods.discrepancy.multilinear import Joined, build_joined
from residapt.methods.registry import probe
from residapt.streams import TwoStream

__all__ = ["Adversarial", "Joined", "Moments", "build_discrepancy", "build_own_discrepancy"]

_ON_FEATURES = ("rbf_mmd", "rman", "cdan", "cdan_e")


def build_discrepancy(
    config: DiscrepancyConfig, default: DiscrepancyName, streams: TwoStream, example: Tensor
) -> Discrepancy:
    """The discrepancy that the configuration names, or the method's own; sizes from a pass of ``example``."""
    kind = config.kind or default
    layer = resolve_layer(streams, config.layer or (PENULTIMATE if kind in _ON_FEATURES else None), example)
    if kind in DISTANCES:
        return Moments(DISTANCES[kind], layer=layer)
    outputs = probe(streams, example, () if layer is None else (layer,))
    features = outputs.features if layer is None else outputs.inner[layer].flatten(1)
    if kind in ("rman", "cdan", "cdan_e") and layer is not None:
        made: Adversarial = build_joined(kind, config, features.shape[1], outputs.logits.shape[1], layer)
    else:
        made = Adversarial(
            features.shape[1],
            confusion=cast(Confusion, kind),
            hidden=config.hidden,
            dropout=config.dropout,
            seed=config.seed,
            layer=layer,
            steps=config.steps,
            normalise=config.normalise,
        )
    return made.to(features)


def build_own_discrepancy(
    config: DiscrepancyConfig, kind: DiscrepancyName, streams: TwoStream, example: Tensor, *, method: str
) -> Discrepancy:
    """For a method that is its discrepancy: another kind would make its name untrue, so it is rejected."""
    if config.kind not in (None, kind):
        raise ConfigError(
            f"discrepancy.kind = '{config.kind}' does not go with method '{method}', which is '{kind}'. "
            f"Leave it out, or use --method rpt --discrepancy {config.kind}."
        )
    return build_discrepancy(config, kind, streams, example)
