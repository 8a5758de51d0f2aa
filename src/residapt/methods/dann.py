r"""DANN (Ganin et al. 2016): one network whose features do not tell a domain classifier the domain.

``dann`` is the original, by gradient reversal: the network gets :math:`-\lambda_p\,\partial L_{DC}(y)`.
``dann_flip`` minimises :math:`L_{DC}(1-y)` instead (Eq. 6 of Rozantsev et al. 2018), which is also RPT with
every layer shared.
"""

from __future__ import annotations

from torch import Tensor, nn

from residapt.methods.config import MethodConfig
from residapt.methods.registry import register
from residapt.methods.shared import SharedAlignment


class DANN(SharedAlignment):
    """Confusion by gradient reversal."""

    name = "dann"
    kind = "reversal"


class FlippedDANN(SharedAlignment):
    """Confusion by flipped domain labels."""

    name = "dann_flip"
    kind = "flip"


@register("dann")
def build(model: nn.Module, config: MethodConfig, example: Tensor) -> DANN:
    """By gradient reversal."""
    return DANN.around(model, config, example)


@register("dann_flip")
def build_flip(model: nn.Module, config: MethodConfig, example: Tensor) -> FlippedDANN:
    """By flipped domain labels."""
    return FlippedDANN.around(model, config, example)
