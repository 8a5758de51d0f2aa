"""Search over settings by a score that needs no target labels."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from residapt.tune.store import StudyConfig
    from residapt.tune.study import Study, tune

__all__ = ["Study", "StudyConfig", "tune"]

_HOMES = {"Study": "study", "StudyConfig": "store", "tune": "study"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that the command line checks its options without torch."""
    if name in _HOMES:
        return getattr(import_module(f"residapt.tune.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'residapt.tune' has no attribute '{name}'")
