r"""Residual parameter transfer (Rozantsev, Salzmann & Fua, CVPR 2018).

.. math::
   L = L_{class} + L_{disc} + \lambda_s (L_\omega - \log L_\omega) + \lambda_r (R_c + R_r)

L_disc is any discrepancy (``discrepancy.kind``), the paper's by default: flipped labels of a domain
classifier. ``rpt`` is the whole method; ``rpt_fixed`` leaves the last term out (Eq. 4) and keeps the ranks.
"""

from __future__ import annotations

from typing import TypeVar

from torch import Tensor, nn

from residapt.methods.alignment import Alignment
from residapt.methods.config import MethodConfig
from residapt.methods.discrepancy import build_discrepancy
from residapt.methods.own import with_own_names
from residapt.methods.registry import register
from residapt.streams import TwoStream

R = TypeVar("R", bound="RPT")


class RPT(Alignment):
    """A transform for each layer, domain confusion, the stream loss and, unless fixed, rank selection."""

    name = "rpt"


class FixedRPT(RPT):
    """RPT whose ranks stay as they are."""

    name = "rpt_fixed"


def _build(kind: type[R], model: nn.Module, config: MethodConfig, example: Tensor, *, select_ranks: bool) -> R:
    streams = TwoStream(model, with_own_names(config.transform, model, example), example=example)
    discrepancy = build_discrepancy(config.discrepancy, "flip", streams, example)
    return kind(streams, discrepancy, config, select_ranks=select_ranks)


@register("rpt")
def build(model: nn.Module, config: MethodConfig, example: Tensor) -> RPT:
    """Residual parameter transfer with automatic ranks. Rozantsev et al. 2018."""
    return _build(RPT, model, config, example, select_ranks=True)


@register("rpt_fixed")
def build_fixed(model: nn.Module, config: MethodConfig, example: Tensor) -> FixedRPT:
    """Residual parameter transfer whose ranks stay as they are. Rozantsev et al. 2018, Eq. 4."""
    return _build(FixedRPT, model, config, example, select_ranks=False)
