"""The methods of this library, rows and files. Nothing here loads torch, so that names are checked early."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from residapt.errors import ConfigError
from residapt.methods.config import DiscrepancyName


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
        "DANN: features from which a domain classifier cannot tell the domain, by gradient reversal.",
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
OWN_PARAMETERS = ("norm_statistics", "norm_affine", "bias_only", "last_layer", "separate")
LOW_RANK = ("lora", "dora")
TARGET_PARTS = (*OWN_PARAMETERS, *LOW_RANK)
"""Methods with the losses of RPT that differ in what the target has for itself."""
SOURCE_FREE = ("source_free", "shot")
"""Methods that read no source images."""
FILES = {
    "adda": ("adda",),
    "baselines": ("source_only", "target_only", "fine_tune", "pooled"),
    "dsn": ("dsn",),
    "low_rank": LOW_RANK,
    "rpt": ("rpt", "rpt_fixed"),
    "source_free": SOURCE_FREE,
    "target_parts": OWN_PARAMETERS,
    "two_stream": ("two_stream",),
}
"""The methods that have a file of their own, by its name."""
BUILT_IN = tuple(sorted([row.name for row in SHARED] + [name for names in FILES.values() for name in names]))
"""The methods of this library."""
known = set(BUILT_IN)
"""These, and those that other code has registered."""


def check_method(name: str) -> None:
    """Reject a name that no method has, with the nearest one."""
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise ConfigError(f"there is no method '{name}'.{hint} Methods: {', '.join(sorted(known))}.")
