"""``residapt report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from residapt.cli.app import app, console


@app.command(epilog="Example: residapt report run/")
def report(run: Annotated[Path, typer.Argument(help="Run directory, the folder given with -o.")]) -> None:
    """Write the report of a run as one page that works offline, also before the run has finished."""
    from residapt.storage.run_directory import RunDirectory

    opened = RunDirectory.open(run)  # before torch is loaded
    from residapt.report import write_report

    console.print(f"report: {write_report(opened)}", markup=False, highlight=False, soft_wrap=True)
