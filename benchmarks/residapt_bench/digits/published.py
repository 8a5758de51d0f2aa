"""Published accuracies, with where they stand, for the tables."""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """One number of a paper."""

    percent: float
    source: str


SVHN_MNIST: dict[tuple[str, str], Published] = {
    ("lenet", "source_only"): Published(60.1, "RPT, Table 3 (from ADDA)"),
    ("lenet", "dann_flip"): Published(80.7, "RPT, Table 3"),
    ("lenet", "dann"): Published(80.7, "RPT, Table 3"),
    ("lenet", "adda"): Published(76.0, "RPT, Table 3 (from ADDA)"),
    ("lenet", "two_stream"): Published(82.8, "RPT, Table 3"),
    ("lenet", "confusion"): Published(68.1, "ADDA, Table 2; the RPT paper lists it under SvhNet"),
    ("lenet", "rpt"): Published(84.7, "RPT, Table 3"),
    ("svhnet", "source_only"): Published(54.9, "RPT, Table 3 (from DANN)"),
    ("svhnet", "confusion"): Published(68.1, "RPT, Table 3"),
    ("svhnet", "dann"): Published(73.9, "RPT, Table 3 (from DANN)"),
    ("svhnet", "dann_flip"): Published(73.9, "RPT, Table 3 (from DANN)"),
    ("svhnet", "rpt_fixed"): Published(77.8, "RPT, Table 3"),
    ("svhnet", "rpt"): Published(78.7, "RPT, Table 3"),
    ("svhnet", "rman"): Published(81.0, "RPT, Appendix B"),
    ("svhnet", "dsn"): Published(82.78, "RPT, Table 3 (from DSN, Table 3)"),
}

PUBLISHED: dict[str, dict[tuple[str, str], Published]] = {"svhn-mnist": SVHN_MNIST}
