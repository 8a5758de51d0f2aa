r"""DANN (Ganin et al. 2016): one network for both domains whose features a domain classifier cannot tell apart.

``dann`` is the original, by gradient reversal: the network gets :math:`-\lambda_p\,\partial L_{DC}(y)`.
``dann_flip`` minimises :math:`L_{DC}(1-y)` instead (Eq. 6 of Rozantsev et al. 2018), which is also RPT with every
layer shared.
"""

from __future__ import annotations

from torch import Tensor, nn

from residapt.methods.alignment import Alignment
from residapt.methods.config import DiscrepancyName, MethodConfig
from residapt.methods.discrepancies import build_discrepancy
from residapt.methods.registry import probe, register, shared_streams


class DANN(Alignment):
    """Plain alignment with shared weights."""

    name = "dann"


def shared_alignment(model: nn.Module, config: MethodConfig, example: Tensor, kind: DiscrepancyName) -> DANN:
    """Shared weights and the given discrepancy."""
    two = shared_streams(model, config)
    return DANN(two, build_discrepancy(config.discrepancy, kind, probe(two, example)), config, select_ranks=False)


@register("dann")
def build(model: nn.Module, config: MethodConfig, example: Tensor) -> DANN:
    """By gradient reversal."""
    return shared_alignment(model, config, example, "reversal")


@register("dann_flip")
def build_flip(model: nn.Module, config: MethodConfig, example: Tensor) -> DANN:
    """By flipped domain labels."""
    return shared_alignment(model, config, example, "flip")
