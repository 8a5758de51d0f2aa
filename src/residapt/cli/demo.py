"""``residapt demo``: an ordinary run on embedded data, in about a minute on two cores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from residapt.cli.app import app, console, show_json
from residapt.cli.options import LARGEST_SEED, SMALLEST_SEED, JsonOption, QuietOption
from residapt.cli.progress import progress_console
from residapt.cli.result import result_lines, show_lines

if TYPE_CHECKING:
    from residapt.storage.summary import RunSummary


@app.command(epilog="Example: residapt demo -o run-demo --seed 1")
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the run directory.")] = Path("run-demo"),
    seed: Annotated[int, typer.Option(min=SMALLEST_SEED, max=LARGEST_SEED, help="Seed of everything.")] = 0,
    threads: Annotated[int, typer.Option(min=0, help="Threads for computing; 0 leaves it to torch.")] = 0,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Adapt from printed digits drawn by the program to real handwritten digits without labels."""
    import torch

    from residapt.demo import command, images_beside, run_demo

    if threads:
        torch.set_num_threads(threads)
    progress = progress_console(quiet=quiet, as_json=as_json)
    progress.print("Source: printed digits drawn now, with labels. Target: real handwritten digits, without labels.")
    run = run_demo(out, seed=seed, console=progress)
    if as_json:
        show_json(run.summary)
        return
    folders = images_beside(out)
    show_lines(result_lines(run.summary, out, images=folders.held_out))
    console.print(result_table(run.summary))
    console.print(rank_table(run.summary))
    show_lines([f"The images: {folders.folder}. The same run on them:", f"  {command(out, seed)}"])
    show_lines([f"Now open {out / 'report.html'}"])


def result_table(summary: RunSummary) -> Table:
    """Accuracy on the held-out half of the handwritten digits, parameters added, and time of each training."""
    percent = {one.stage: one.percent for one in summary.accuracies}
    table = Table("network", title="Handwritten digits, held-out half")
    for column in ("accuracy", "parameters added", "training"):
        table.add_column(column, justify="right")
    seconds, added = summary.seconds, summary.parameters["transforms"]
    table.add_row("source network", f"{percent['source_only']:.1f} %", "", f"{seconds['source training']:.0f} s")
    table.add_row("adapted", f"{percent['adapted']:.1f} %", f"{added:,}", f"{seconds['adaptation']:.0f} s")
    return table


def rank_table(summary: RunSummary) -> Table:
    """Ranks of each layer before and after."""
    table = Table("layer", "ranks before [l, r]", "after", "", title="What has to change from one domain to the other")
    for layer in summary.ranks:
        shared = max(layer.after) == 0
        words = (
            layer.layer,
            str(list(layer.before)),
            str(list(layer.after)),
            "shared by both domains" if shared else "",
        )
        table.add_row(*words, style="dim" if shared else "")
    return table
