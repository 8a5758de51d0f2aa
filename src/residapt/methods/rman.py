r"""RMAN (Long et al. 2017, arXiv 1705.10667v1): the domain classifier reads features times predictions.

.. math:: T(f, g) = \tfrac{1}{\sqrt D}\,(R_f f) \odot (R_g g)

with f the last features before the classifier, g the softmax, fixed Gaussian matrices and D = 128 (Appendix
B of Rozantsev et al. 2018, which builds the discrepancy from it by flipped labels). RPT with it: ``rpt``
with ``discrepancy.kind = "rman"``.
"""

from __future__ import annotations

from torch import Tensor, nn

from residapt.methods.config import MethodConfig
from residapt.methods.registry import register
from residapt.methods.shared import SharedAlignment


class RMAN(SharedAlignment):
    """Shared weights and a domain classifier on a random multilinear map."""

    name = "rman"
    kind = "rman"


@register("rman")
def build(model: nn.Module, config: MethodConfig, example: Tensor) -> RMAN:
    """By flipped domain labels."""
    return RMAN.around(model, config, example)
