"""``residapt config`` and ``residapt methods``: what can be set, and what can be chosen."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from residapt.cli.app import app, console, show_json
from residapt.cli.options import JsonOption


@app.command(epilog="Example: residapt config rank --set rank.weight=0.1")
def config(
    name: Annotated[str | None, typer.Argument(help="A setting or group, for instance rank; all if left out.")] = None,
    file: Annotated[Path | None, typer.Option("--config", help="TOML file to start from.")] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help="Change one setting: key=value.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show settings with their values and what they do."""
    from residapt.config import describe_config, load_config

    rows = list(describe_config(load_config(file, changes or ())))
    if name:
        rows = _matching(rows, name)
    if as_json:
        show_json({key: value for key, value, _ in rows})
        return
    for key, value, text in rows:
        line = f"{key} = {'(none)' if value is None else json.dumps(value)}"
        console.print(line, style="bold", markup=False, highlight=False, soft_wrap=True)
        console.print(f"    {' '.join(text.split())}", markup=False, highlight=False, soft_wrap=True)


def _matching(rows: list[tuple[str, Any, str]], name: str) -> list[tuple[str, Any, str]]:
    """The setting or group of that name, or else the settings with it in their key."""
    from residapt.errors import ConfigError

    found = [row for row in rows if row[0] == name or row[0].startswith(f"{name}.")]
    found = found or [row for row in rows if name.lower() in row[0]]
    if not found:
        keys = [key for key, _, _ in rows]
        known = {part for key in keys for part in (key, key.partition(".")[0])}
        near = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.4)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise ConfigError(f"there is no setting or group '{name}'.{hint}")
    return found


@app.command(epilog="Example: residapt methods")
def methods(as_json: JsonOption = False) -> None:
    """List the methods that adapt or serve as a baseline."""
    from residapt.methods import describe_methods

    if as_json:
        show_json(dict(describe_methods()))
        return
    table = Table("method", "what it is")
    for name, text in describe_methods():
        table.add_row(name, text)
    console.print(table)
