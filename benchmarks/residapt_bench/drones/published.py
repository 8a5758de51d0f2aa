"""Published average precisions of drone detection."""

from __future__ import annotations

PAPER: dict[str, tuple[float, float | None]] = {
    "source_only": (0.377, None),
    "dann_flip": (0.715, 0.004),
    "adda": (0.731, 0.005),
    "two_stream": (0.732, 0.003),
    "rpt": (0.743, 0.006),
}
"""Average precision on UAV-200: mean and standard deviation of 5 runs (Rozantsev et al. 2018, Table 5)."""
EARLIER: dict[str, float] = {"fine_tune": 0.612, "pooled": 0.569}
"""The same with the network of "Beyond Sharing Weights" (the authors' earlier paper), one number each."""
