"""``residapt demo``: the method on embedded data, in about two minutes on two cores."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from residapt.cli.app import app, console, show_json
from residapt.cli.options import LARGEST_SEED, SMALLEST_SEED, JsonOption, QuietOption, progress_console

if TYPE_CHECKING:
    from residapt.demo import DemoResult
    from residapt.storage.run_directory import RunDirectory


@app.command(epilog="Example: residapt demo -o run-demo --seed 1")
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the run directory.")] = Path("run-demo"),
    seed: Annotated[int, typer.Option(min=SMALLEST_SEED, max=LARGEST_SEED, help="First seed of everything.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds to run, one after the other.")] = 1,
    methods: Annotated[str, typer.Option(help="Methods to compare, separated by commas.")] = "dann_flip,rpt",
    threads: Annotated[int, typer.Option(min=0, help="Threads for computing; 0 leaves it to torch.")] = 0,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Adapt from printed digits drawn by the program to real handwritten digits without labels."""
    import torch

    from residapt.demo import run_demo
    from residapt.methods import check_method
    from residapt.storage.run_directory import RunDirectory
    from residapt.train.metrics import MetricsFile
    from residapt.train.progress import ProgressBar

    if threads:
        torch.set_num_threads(threads)
    names = tuple(name for name in methods.split(",") if name)
    for name in names:
        check_method(name)
    run = RunDirectory.create(out)
    progress = progress_console(quiet=quiet, as_json=as_json)
    progress.print("Source: printed digits drawn now, with labels. Target: real handwritten digits, without labels.")
    results: list[DemoResult] = []
    for number in range(seed, seed + seeds):
        results += run_demo(
            names,
            seed=number,
            callbacks=lambda title, number=number: (  # type: ignore[misc]
                ProgressBar(title, progress),
                MetricsFile(run.metrics, method=title, seed=number),
            ),
        )
    _finish(run, results, as_json=as_json)


def _finish(run: RunDirectory, results: Sequence[DemoResult], *, as_json: bool) -> None:
    import torch

    from residapt.version import __version__

    records = run.path / "results.jsonl"
    stamp = {"environment": {"residapt": __version__, "torch": torch.__version__}}
    lines = [json.dumps({**result.record(), **stamp}) + "\n" for result in results]
    records.write_text("".join(lines), encoding="utf-8")
    if as_json:
        show_json([result.record() for result in results])
        return
    console.print(result_table(results))
    adapted = [result for result in results if result.ranks_before]
    if adapted:
        console.print(rank_table(adapted[-1]))
    console.print(f"Run directory: {run.path} (metrics.jsonl, results.jsonl)", highlight=False)


def result_table(results: Sequence[DemoResult]) -> Table:
    """Accuracy on the held-out half of the handwritten digits, parameters added and seconds; means over the seeds."""
    from residapt.demo import TITLES

    table = Table("method", title="Handwritten digits, held-out half")
    for column in ("accuracy", "parameters added", "seconds"):
        table.add_column(column, justify="right")
    for name in dict.fromkeys(result.method for result in results):
        rows = [result for result in results if result.method == name]
        mean = sum(row.accuracy for row in rows) / len(rows)
        seconds = sum(row.seconds for row in rows) / len(rows)
        kept = sum(row.added for row in rows) / len(rows)
        table.add_row(TITLES.get(name, name), f"{mean:.1f} %", f"{kept:,.0f}", f"{seconds:.0f}")
    return table


def rank_table(result: DemoResult) -> Table:
    """Ranks of each layer before and after."""
    table = Table("layer", "ranks before [l, r]", "after", "", title="What has to change from one domain to the other")
    for layer, before in result.ranks_before.items():
        after = result.ranks_after[layer]
        note = "shared by both domains" if max(after) == 0 else ""
        table.add_row(layer, str(list(before)), str(list(after)), note, style="dim" if note else "")
    return table
