"""``residapt bench speed``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from residapt.cli.app import bench_app, console


@bench_app.command(epilog="Example: residapt bench speed --case lenet --rounds 40")
def speed(
    case: Annotated[list[str] | None, typer.Option(help="lenet, svhnet or resnet50; all three when not given.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved rounds; the median counts.")] = 30,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Append the records to this JSONL file.")] = None,
) -> None:
    """Time and memory of a step of RPT against DANN, interleaved, as ratios."""
    from residapt.bench.speed import run_speed, speed_table

    console.print(speed_table(run_speed(tuple(case or ("lenet", "svhnet", "resnet50")), rounds, out)))
