"""Adapt any PyTorch classifier to a new domain by low-rank residual parameter transfer."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from residapt.version import __version__

if TYPE_CHECKING:
    from residapt import methods
    from residapt.run import adapt
    from residapt.storage import load
    from residapt.streams import TwoStream

__all__ = ["TwoStream", "__version__", "adapt", "load", "methods"]

_HOMES = {"TwoStream": "residapt.streams", "load": "residapt.storage", "adapt": "residapt.run"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that the command line starts without torch."""
    if name == "methods":
        return import_module("residapt.methods")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'residapt' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
