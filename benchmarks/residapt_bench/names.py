"""Names of methods in tables: ``rpt+`` is the method ``rpt`` with the recipe ``plus``."""

from __future__ import annotations


def split_plus(name: str) -> tuple[str, bool]:
    """``rpt+`` is the method ``rpt`` with the recipe ``plus``; so with every method."""
    return name.removesuffix("+"), name.endswith("+")


def named(name: str) -> dict[str, str]:
    """The settings ``method`` and, behind a ``+``, ``recipe`` of a configuration."""
    method, plus = split_plus(name)
    return {"method": method, "recipe": "plus"} if plus else {"method": method}


def full_name(method: str, recipe: str) -> str:
    """The other way round: the name of a method with the ``+`` of its recipe."""
    return f"{method}+" if recipe == "plus" else method
