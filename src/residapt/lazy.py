"""Packages whose names are imported when they are first used, so that the command line starts without torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(
    package: str, names: Mapping[str, str], modules: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package (PEP 562).

    Args:
        package: Its ``__name__``.
        names: The module that each public name comes from.
        modules: Submodules that are public as well.
    """

    def get(name: str) -> Any:
        if name in names:
            return getattr(import_module(names[name]), name)
        if name in modules:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module '{package}' has no attribute '{name}'")

    return get, lambda: sorted((*names, *modules))
