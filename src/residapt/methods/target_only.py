"""Target only, the oracle: the network trained on target labels. The ceiling of every table.

It is the only method that may see them. Its training pair comes from
:func:`residapt.methods.oracle.training_pair`, which puts the labelled target where a source would be;
nothing else hands target labels to a method.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from residapt.methods.config import MethodConfig
from residapt.methods.registry import register
from residapt.methods.source_only import SourceOnly, single_stream


class TargetOnly(SourceOnly):
    """Cross-entropy on the labelled target, which takes the place of the source."""

    name = "target_only"
    oracle: ClassVar[bool] = True


@register("target_only")
def build(model: nn.Module, config: MethodConfig, example: Tensor) -> TargetOnly:
    """The network alone."""
    return TargetOnly(single_stream(model, config))
