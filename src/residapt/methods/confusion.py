r"""Domain confusion (Tzeng et al. 2015, ICCV): the features should make a domain classifier undecided.

.. math:: L_{conf} = -\sum_{d \in \{s, t\}} E_{x \sim d}\big[\tfrac12 \log D(f) + \tfrac12 \log(1 - D(f))\big]

that is, cross-entropy to the uniform distribution over the domains, while D itself is trained to tell them
apart. This is the row "DC" of the paper's table, 68.1 on SVHN to MNIST, which it attributes to Tzeng et al.
2014 (that is ``mmd``). The soft-label part of the 2015 paper needs target labels and is left out.
"""

from __future__ import annotations

from torch import Tensor, nn

from residapt.methods.config import MethodConfig
from residapt.methods.registry import register
from residapt.methods.shared import SharedAlignment


class DomainConfusion(SharedAlignment):
    """Shared weights and the confusion loss."""

    name = "confusion"
    kind = "uniform"


@register("confusion")
def build(model: nn.Module, config: MethodConfig, example: Tensor) -> DomainConfusion:
    """By cross-entropy to the uniform distribution."""
    return DomainConfusion.around(model, config, example)
