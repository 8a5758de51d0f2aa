"""Alignment with shared weights: one network for both domains, a discrepancy between their outputs."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from torch import Tensor, nn

from residapt.methods.alignment import Alignment
from residapt.methods.config import DiscrepancyName, MethodConfig
from residapt.methods.discrepancy import build_own_discrepancy
from residapt.methods.registry import shared_streams

S = TypeVar("S", bound="SharedAlignment")


class SharedAlignment(Alignment):
    """One network, one discrepancy; subclasses say which."""

    kind: ClassVar[DiscrepancyName]

    @classmethod
    def around(cls: type[S], model: nn.Module, config: MethodConfig, example: Tensor) -> S:
        """The method around a network."""
        two = shared_streams(model, config)
        own = build_own_discrepancy(config.discrepancy, cls.kind, two, example, method=cls.name)
        return cls(two, own, config, select_ranks=False)
