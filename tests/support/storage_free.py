"""A device for networks whose shapes alone are of interest."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import torch


def _timm_builds_without_storage() -> bool:
    try:
        return tuple(map(int, version("timm").split(".")[:3])) >= (1, 0, 22)
    except (PackageNotFoundError, ValueError):
        return True


SHAPES_ONLY = torch.device("meta" if _timm_builds_without_storage() else "cpu")
"""No memory and no time; older versions of timm compute with values while they build."""
