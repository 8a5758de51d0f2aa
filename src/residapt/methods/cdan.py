r"""CDAN (Long et al. 2018): the domain classifier reads the product of features and predictions.

.. math:: T(f, g) = f \otimes g

g is the softmax, without gradient, as in the authors' code; where the product has more than 4096 entries the
random map of RMAN, 1024 wide, takes its place. ``cdan_e`` weights each sample by :math:`1 + e^{-H(g)}`,
normalised per domain, in both losses; the weights carry no gradient. Confusion is by gradient reversal.
"""

from __future__ import annotations

from torch import Tensor, nn

from residapt.methods.config import MethodConfig
from residapt.methods.registry import register
from residapt.methods.shared import SharedAlignment


class CDAN(SharedAlignment):
    """Shared weights and a domain classifier on features times predictions."""

    name = "cdan"
    kind = "cdan"


class EntropyCDAN(SharedAlignment):
    """CDAN whose domain classifier trusts sure predictions more."""

    name = "cdan_e"
    kind = "cdan_e"


@register("cdan")
def build(model: nn.Module, config: MethodConfig, example: Tensor) -> CDAN:
    """All samples count the same."""
    return CDAN.around(model, config, example)


@register("cdan_e")
def build_entropy(model: nn.Module, config: MethodConfig, example: Tensor) -> EntropyCDAN:
    """Sure predictions count more (CDAN+E)."""
    return EntropyCDAN.around(model, config, example)
