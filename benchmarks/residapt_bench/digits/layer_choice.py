r"""Which layers the two-stream network separates, chosen without labels as in its paper.

Train every combination of shared and separate layers for a while, compute :math:`\mathrm{MMD}^2` between the
outputs of the two streams, and take the lowest. The training itself is the caller's; here are the parts
around it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from residapt.errors import ConfigError
from residapt.losses.moments import rbf_mmd
from residapt.methods.separate import parameter_owners

Layers = tuple[str, ...]
MOST_LAYERS = 12


def layer_combinations(model: nn.Module) -> list[Layers]:
    """Every set of layers that can be separate, from none to all, as values of ``two_stream.layers``."""
    names = list(parameter_owners(model))
    if len(names) > MOST_LAYERS:
        raise ConfigError(
            f"{type(model).__name__} has {len(names)} layers, that is {2 ** len(names)} combinations. "
            f"Choose two_stream.layers by hand for networks with more than {MOST_LAYERS} layers."
        )
    return [chosen for size in range(len(names) + 1) for chosen in itertools.combinations(names, size)]


def stream_mmd(source_logits: Tensor, target_logits: Tensor, *, sigma: float = 1.0) -> float:
    r""":math:`\mathrm{MMD}^2` between the class probabilities of both streams, each on its own domain.

    Probabilities rather than logits: their squared distances are at most 2, so that :math:`\sigma = 1` fits
    every network, and a network cannot win by shrinking its outputs.
    """
    p_s, p_t = (logits.to(torch.float64).softmax(dim=1) for logits in (source_logits, target_logits))
    return float(rbf_mmd(p_s, p_t, sigma=sigma))


def choose_layers(mmd2: Mapping[Layers, float]) -> Layers:
    """The combination with the lowest value; of equal ones, the one that separates fewer layers."""
    if not mmd2:
        raise ConfigError("choose_layers got no combination; measure at least one with stream_mmd.")
    return min(mmd2, key=lambda layers: (mmd2[layers], len(layers), layers))
