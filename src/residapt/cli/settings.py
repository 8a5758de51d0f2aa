"""``residapt config`` and ``residapt methods``: what can be set, and what can be chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from residapt.cli.app import app, console


@app.command(epilog="Example: residapt config --set rank.weight=0.1")
def config(
    file: Annotated[Path | None, typer.Option("--config", help="TOML file to start from.")] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help="Change one setting: key=value.")] = None,
) -> None:
    """Show every setting with its value and what it does."""
    from residapt.config import describe_config, load_config

    table = Table("setting", "value", "what it does", show_lines=False)
    for key, value, text in describe_config(load_config(file, changes or ())):
        table.add_row(key, "-" if value is None else str(value), text)
    console.print(table)


@app.command(epilog="Example: residapt methods")
def methods() -> None:
    """List the methods that adapt or serve as a baseline."""
    from residapt.methods import describe_methods

    table = Table("method", "what it is")
    for name, text in describe_methods():
        table.add_row(name, text)
    console.print(table)
