"""The methods of this library: importing them registers them."""

from residapt.methods import (
    adda,
    cdan,
    confusion,
    coral,
    dann,
    dsn,
    fine_tune,
    mmd,
    pooled,
    rman,
    rpt,
    source_only,
    target_only,
    two_stream,
)

__all__ = [
    "adda",
    "cdan",
    "confusion",
    "coral",
    "dann",
    "dsn",
    "fine_tune",
    "mmd",
    "pooled",
    "rman",
    "rpt",
    "source_only",
    "target_only",
    "two_stream",
]
