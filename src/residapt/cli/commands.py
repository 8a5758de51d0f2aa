"""All commands. Importing a command's module registers it; each imports what it needs when it runs."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points

from residapt.cli.app import app, messages

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
        if entry.name in known:
            continue
        try:
            app.add_typer(entry.load(), name=entry.name)
        except ImportError as error:  # of another package, without which all other commands work
            text = f"note: the commands 'residapt {entry.name}' cannot be loaded: {error}."
            messages.print(text, markup=False, highlight=False, soft_wrap=True)
