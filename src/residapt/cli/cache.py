"""``residapt cache``: what is kept on disk for later runs, and how to get the room back."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Annotated

import typer
from rich.table import Table

from residapt.cli.app import app, console

cache = typer.Typer(help="Show or clear the decoded images that are kept for later runs.", no_args_is_help=True)
app.add_typer(cache, name="cache")


@cache.command("list", epilog="Example: residapt cache list")
def list_files() -> None:
    """Show the files, the one that was used last first, and their folder."""
    from residapt.data.cache_folder import cache_folder, entries

    found = entries(cache_folder())
    table = Table("made from", "MB", "last used", "file")
    for entry in found:
        used = datetime.fromtimestamp(entry.used, tz=timezone.utc).astimezone()
        table.add_row(entry.what, f"{entry.bytes / 1e6:,.1f}", f"{used:%Y-%m-%d %H:%M}", entry.path.name)
    if found:
        console.print(table)
    total = sum(entry.bytes for entry in found)
    _say(f"{len(found)} files, {total / 1e6:,.1f} MB in {cache_folder()}")


@cache.command(epilog="Example: residapt cache clear --older 30")
def clear(
    older: Annotated[float, typer.Option("--older", min=0, help="Only files not used for this many days.")] = 0.0,
) -> None:
    """Remove the files. Runs that use them continue, and decode images again where necessary."""
    from residapt.data.cache_folder import cache_folder, entries, remove

    before = time.time() - 86400 * older
    found = [entry for entry in entries(cache_folder()) if entry.used <= before]
    _say(f"removed {len(found)} files, {remove(found) / 1e6:,.1f} MB")


def _say(text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
