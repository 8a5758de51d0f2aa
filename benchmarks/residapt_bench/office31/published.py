"""Published accuracies on Office-31 with ResNet-50, with where they stand."""

from __future__ import annotations

from typing import NamedTuple

from residapt_bench.office31.experiment import PAIRS


class PublishedRow(NamedTuple):
    """One row of somebody's table; ``selection`` says which checkpoint was counted, where it is known."""

    name: str
    source: str
    accuracies: tuple[float, float, float, float, float, float]
    """In the order A-W, D-W, W-D, A-D, D-A, W-A, as printed."""
    method: str | None = None
    """The method of this library that it corresponds to."""
    selection: str = ""

    def by_pair(self) -> dict[str, float]:
        """Accuracy of each pair."""
        return dict(zip(_PRINTED, self.accuracies, strict=True))


_PRINTED = ("a-w", "d-w", "w-d", "a-d", "d-a", "w-a")
assert sorted(_PRINTED) == sorted(PAIRS)

ORACLE = "best epoch by target labels"
PUBLISHED_OFFICE = (
    PublishedRow(
        "ResNet-50",
        "Long et al., quoted by easezyc/deep-transfer-learning",
        (68.4, 96.7, 99.3, 68.9, 62.5, 60.7),
        "source_only",
    ),
    PublishedRow(
        "DANN",
        "RPT, the paper's Office table (its own re-implementation)",
        (78.9, 97.5, 99.2, 79.1, 63.6, 62.8),
        "dann_flip",
    ),
    PublishedRow("RPT", "RPT, the paper's Office table", (81.5, 98.0, 99.4, 82.7, 64.7, 63.6), "rpt"),
    PublishedRow(
        "DANN", "MADA, quoted by easezyc/deep-transfer-learning", (82.0, 96.9, 99.1, 79.7, 68.2, 67.4), "dann"
    ),
    PublishedRow("ResNet-50", "SHOT's code", (76.9, 95.3, 98.7, 80.8, 60.3, 63.6), "source_only"),
    PublishedRow("ResNet-50", "TLlib", (75.8, 95.5, 99.0, 79.3, 63.6, 63.8), "source_only", ORACLE),
    PublishedRow("DANN", "TLlib", (91.4, 97.9, 100.0, 83.6, 73.3, 70.4), "dann", ORACLE),
    PublishedRow("DAN", "TLlib", (84.2, 98.4, 100.0, 87.3, 66.9, 65.2), "mk_mmd", ORACLE),
    PublishedRow("CDAN", "TLlib", (93.8, 98.5, 100.0, 89.9, 73.4, 70.4), "cdan", ORACLE),
    PublishedRow("MDD", "TLlib", (95.6, 98.6, 100.0, 94.4, 76.6, 72.2), None, ORACLE),
    PublishedRow("SHOT", "SHOT's code", (90.1, 98.4, 99.9, 94.0, 74.7, 74.3)),
)
"""Where a network, an input size and a protocol are others, so is the number: compare within a table first."""
