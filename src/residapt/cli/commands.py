"""All commands. Importing a command's module registers it; each imports what it needs when it runs."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points

from residapt.cli.app import app

MODULES = (
    "adapt",
    "result",
    "tune",
    "predict",
    "evaluate",
    "export",
    "inspect",
    "demo",
    "doctor",
    "settings",
    "report",
    "compare",
    "cache",
    "suggest",
)
GROUPS = "residapt.commands"
"""Entry points of packages beside this one that bring a group of commands."""


def register() -> None:
    """Import every module with commands, and the groups that other packages bring."""
    for name in MODULES:
        import_module(f"residapt.cli.{name}")
    known = {group.name for group in app.registered_groups}
    for entry in entry_points(group=GROUPS):
        if entry.name not in known:
            app.add_typer(entry.load(), name=entry.name)
