"""``residapt report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from residapt.cli.app import app, console


@app.command(epilog="Example: residapt report run/")
def report(run: Annotated[Path, typer.Argument(help="Run directory, the folder that -o named.")]) -> None:
    """Write the report of a run, finished or not, as one page that works offline."""
    from residapt.report import write_report
    from residapt.storage.run_directory import RunDirectory

    console.print(f"report: {write_report(RunDirectory.open(run))}", markup=False, highlight=False, soft_wrap=True)
