r"""Alignment with shared weights: one network for both domains and a discrepancy between their outputs.

.. math:: L = L_{class} + \lambda_p\,L_{disc}

The methods differ in the discrepancy alone, so each is a row of the table in :mod:`residapt.methods.names`. A new one
is a new row, once its discrepancy exists (:mod:`residapt.methods.discrepancy`); the same discrepancy then works with
RPT too, as ``discrepancy.kind``.
"""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from residapt.methods.alignment import Alignment
from residapt.methods.config import MethodConfig
from residapt.methods.discrepancy import build_own_discrepancy
from residapt.methods.discrepancy.base import Discrepancy
from residapt.methods.names import SHARED, SharedMethod
from residapt.methods.registry import add_method, shared_streams
from residapt.streams import TwoStream


class SharedAlignment(Alignment):
    """One network and one discrepancy."""

    def __init__(self, name: str, streams: TwoStream, discrepancy: Discrepancy, config: MethodConfig) -> None:
        super().__init__(streams, discrepancy, config, select_ranks=False)
        self.name = name


def build_shared(row: SharedMethod, model: nn.Module, config: MethodConfig, example: Tensor) -> SharedAlignment:
    """The method of a row around a network."""
    streams = shared_streams(model, config)
    own = build_own_discrepancy(config.discrepancy, row.discrepancy, streams, example, method=row.name)
    return SharedAlignment(row.name, streams, own, config)


def register_shared(row: SharedMethod) -> None:
    """Make a row known by its name."""
    add_method(row.name, partial(build_shared, row), f"{row.summary} {row.reference}.")


for _row in SHARED:
    register_shared(_row)
