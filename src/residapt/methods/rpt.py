r"""Residual parameter transfer (Rozantsev, Salzmann & Fua, CVPR 2018).

.. math::
   L = L_{class} + L_{disc} + \lambda_s (L_\omega - \log L_\omega) + \lambda_r (R_c + R_r)

``rpt`` is the whole method; ``rpt_fixed`` leaves the last term out (Eq. 4) and keeps the ranks.
"""

from __future__ import annotations

from torch import Tensor, nn

from residapt.methods.alignment import Alignment
from residapt.methods.config import MethodConfig
from residapt.methods.discrepancies import build_discrepancy
from residapt.methods.registry import probe, register
from residapt.streams import TwoStream


class RPT(Alignment):
    """A transform for each layer, domain confusion, the stream loss and, unless fixed, rank selection."""

    name = "rpt"


def _build(model: nn.Module, config: MethodConfig, example: Tensor, *, select_ranks: bool) -> RPT:
    two = TwoStream(model, config.transform)
    discrepancy = build_discrepancy(config.discrepancy, "flip", probe(two, example))
    return RPT(two, discrepancy, config, select_ranks=select_ranks)


@register("rpt")
def build(model: nn.Module, config: MethodConfig, example: Tensor) -> RPT:
    """With automatic ranks."""
    return _build(model, config, example, select_ranks=True)


@register("rpt_fixed")
def build_fixed(model: nn.Module, config: MethodConfig, example: Tensor) -> RPT:
    """Without rank selection."""
    return _build(model, config, example, select_ranks=False)
