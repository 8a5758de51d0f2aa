"""Names of methods, which are checked before torch is loaded."""

from __future__ import annotations

import difflib

from residapt.errors import ConfigError

BUILT_IN = (
    "adda",
    "bias_only",
    "cdan",
    "cdan_e",
    "confusion",
    "coral",
    "dann",
    "dann_flip",
    "dora",
    "dsn",
    "fine_tune",
    "last_layer",
    "lora",
    "mk_mmd",
    "mmd",
    "norm_affine",
    "norm_statistics",
    "pooled",
    "rman",
    "rpt",
    "rpt_fixed",
    "separate",
    "shot",
    "source_free",
    "source_only",
    "target_only",
    "two_stream",
)
"""The methods of this library."""
known = set(BUILT_IN)
"""These, and those that other code has registered."""


def check_method(name: str) -> None:
    """Reject a name that no method has, with the nearest one."""
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise ConfigError(f"there is no method '{name}'.{hint} Methods: {', '.join(sorted(known))}.")
