r"""Alignment with shared weights: one network for both domains and a discrepancy between their outputs.

.. math:: L = L_{class} + \lambda_p\,L_{disc}

The methods differ in the discrepancy alone, so each is a row of :data:`SHARED`. A new one is a new row, once its
discrepancy exists (:mod:`residapt.methods.discrepancy`); the same discrepancy then works with RPT too, as
``discrepancy.kind``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from residapt.methods.alignment import Alignment
from residapt.methods.config import DiscrepancyName, MethodConfig
from residapt.methods.discrepancy import build_own_discrepancy
from residapt.methods.discrepancy.base import Discrepancy
from residapt.methods.registry import add_method, shared_streams
from residapt.streams import TwoStream


@dataclass(frozen=True)
class SharedMethod:
    """A method that is its discrepancy."""

    name: str
    discrepancy: DiscrepancyName
    summary: str
    reference: str


SHARED = (
    SharedMethod(
        "dann",
        "reversal",
        "DANN: features that do not tell a domain classifier the domain, by gradient reversal.",
        "Ganin et al. 2016",
    ),
    # Also RPT with every layer shared.
    SharedMethod(
        "dann_flip",
        "flip",
        "DANN by flipped domain labels instead of gradient reversal.",
        "Rozantsev et al. 2018, Eq. 6",
    ),
    # The row "DC" of the paper's table, which names Tzeng et al. 2014 for it (that is mmd). The soft-label part of
    # the 2015 paper needs target labels and is left out.
    SharedMethod(
        "confusion",
        "uniform",
        "Domain confusion: features that leave a domain classifier undecided.",
        "Tzeng et al. 2015",
    ),
    SharedMethod(
        "mmd",
        "mmd",
        "Deep Domain Confusion: features with the same mean (MMD with a linear kernel).",
        "Tzeng et al. 2014",
    ),
    # The 19 kernels of the MMD baseline in Bousmalis et al.
    SharedMethod(
        "mk_mmd",
        "mk_mmd",
        "Features with the same distribution, as several Gaussian kernels see it (MMD).",
        "Long et al. 2015; Bousmalis et al. 2016",
    ),
    SharedMethod("coral", "coral", "Deep CORAL: features with the same covariance.", "Sun & Saenko 2016"),
    SharedMethod(
        "rman",
        "rman",
        "RMAN: a domain classifier reads a random map of features times predictions.",
        "Long et al. 2017, arXiv 1705.10667v1",
    ),
    SharedMethod("cdan", "cdan", "CDAN: a domain classifier reads features times predictions.", "Long et al. 2018"),
    SharedMethod("cdan_e", "cdan_e", "CDAN+E: CDAN in which confident predictions count more.", "Long et al. 2018"),
)
"""All of them. ``discrepancy.layer`` says what they read; the originals of ``mmd``, ``mk_mmd`` and ``coral`` read a
layer before the classifier."""


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
