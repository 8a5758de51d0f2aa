r"""Deep CORAL (Sun & Saenko 2016): one network for both domains whose features have the same covariance.

.. math:: L = L_{class} + \lambda\,\frac{1}{4d^2}\|C_s - C_t\|_F^2

The means may differ: a CORAL that also compares them is another method.
"""

from __future__ import annotations

from torch import Tensor, nn

from residapt.methods.config import MethodConfig
from residapt.methods.registry import register
from residapt.methods.shared import SharedAlignment


class DeepCORAL(SharedAlignment):
    """Shared weights and the distance of the covariances."""

    name = "coral"
    kind = "coral"


@register("coral")
def build(model: nn.Module, config: MethodConfig, example: Tensor) -> DeepCORAL:
    """By the distance of the covariances."""
    return DeepCORAL.around(model, config, example)
