"""The group that the laboratory's commands register with."""

from __future__ import annotations

import typer

app = typer.Typer(help="Measure methods on public data sets, and the speed of a step.", no_args_is_help=True)
