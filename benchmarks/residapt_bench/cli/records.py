"""Commands that only read records: comparisons and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from residapt.cli.app import console
from residapt.errors import DataError
from residapt_bench.cli.grid import records_of
from residapt_bench.cli.group import app

Files = Annotated[list[Path], typer.Argument(help="JSONL files of records.")]


@app.command(epilog="Example: residapt bench guard benchmarks/results/*.jsonl")
def guard(files: Files, markdown: Annotated[bool, typer.Option(help="Print Markdown.")] = False) -> None:
    """What the negative-transfer guard says of recorded runs, beside what the labels say."""
    from residapt_bench.report.guard_check import guard_markdown, guard_table, guard_totals, judge

    judged = judge(records_of(files))
    if not judged:
        raise DataError(
            "these files hold no adapted run with label-free measurements beside a source_only run of the same start."
        )
    console.print(guard_markdown(judged) if markdown else guard_table(judged), highlight=False, soft_wrap=markdown)
    console.print(guard_totals(judged), highlight=False, soft_wrap=True)


@app.command(epilog="Example: residapt bench paired benchmarks/results/svhn-mnist.jsonl rpt dann_flip")
def paired(
    file: Annotated[Path, typer.Argument(help="JSONL file of records.")],
    first: Annotated[str, typer.Argument(help="A method, or method:note.")],
    second: Annotated[str, typer.Argument(help="The method that it is compared with, or method:note.")],
    task: Annotated[str | None, typer.Option(help="Only runs of this task, where there are several.")] = None,
    arch: Annotated[str, typer.Option(help="Network.")] = "lenet",
    note: Annotated[str, typer.Option(help="Only runs with this note.")] = "",
    recipe: Annotated[
        str, typer.Option(help="Only runs of this recipe; a method's name with + is of recipe plus.")
    ] = "common",
    steps: Annotated[int | None, typer.Option(help="Only runs of this length, where there are several.")] = None,
    at: Annotated[int | None, typer.Option(help="Compare after so many steps of the runs, not at their end.")] = None,
) -> None:
    """Difference of two methods over the seeds that both have, with its 95 % interval."""
    from residapt_bench.report.paired import paired_difference

    found = paired_difference(
        records_of([file]), first, second, task=task, arch=arch, note=note, recipe=recipe, steps=steps, at=at
    )
    console.print(found.text(), highlight=False, soft_wrap=True)


@app.command(epilog="Example: residapt bench ranks benchmarks/results/svhn-mnist.jsonl")
def ranks(files: Files, method: Annotated[str, typer.Option(help="Method.")] = "rpt") -> None:
    """Ranks of every layer before and after, as Markdown, a table for each task, network and note."""
    from residapt_bench.report.rank_tables import rank_tables

    console.print(rank_tables(records_of(files), method=method), highlight=False, soft_wrap=True, markup=False)


@app.command(epilog="Example: residapt bench scores benchmarks/results/office31-tries.jsonl")
def scores(files: Files) -> None:
    """Label-free scores of recorded runs as Markdown; the accuracy stands beside them and is not to be chosen by."""
    from residapt_bench.report.score_table import score_table

    console.print(score_table(records_of(files)), highlight=False, soft_wrap=True, markup=False)


@app.command(epilog="Example: residapt bench picked benchmarks/results/drawn.jsonl rpt+ dann_flip+")
def picked(
    files: Files,
    first: Annotated[str, typer.Argument(help="A method.")],
    second: Annotated[str, typer.Argument(help="The method that it is compared with; it must have the same tries.")],
    score: Annotated[str, typer.Option(help="The label-free score that picks a try.")] = "infomax",
) -> None:
    """Two methods whose tries a label-free score picks from, seed by seed, and their mean over all tries."""
    from residapt_bench.report.picked import compare_tries, picked_text

    console.print(picked_text(compare_tries(records_of(files), first, second), score), highlight=False, soft_wrap=True)


@app.command(epilog="Example: residapt bench agreement benchmarks/results/svhn-mnist.jsonl")
def agreement(files: Files) -> None:
    """How far the seeds of each method agree on unlabelled target images, as Markdown; low means different basins."""
    from residapt_bench.report.agreement import agreement_table

    console.print(agreement_table(records_of(files)), highlight=False, soft_wrap=True, markup=False)


FigureOut = Annotated[Path, typer.Option("--out", "-o", help="SVG file to write.")]
ArchOption = Annotated[str, typer.Option(help="Network.")]


@app.command(epilog="Example: residapt bench curves benchmarks/results/svhn-mnist.jsonl -o docs/beyond.svg")
def curves(
    files: Files,
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = "dann_flip,rpt",
    arch: ArchOption = "lenet",
    note: Annotated[str, typer.Option(help="Note of the runs of other recipes than the common one.")] = "",
    out: FigureOut = Path("curves.svg"),
) -> None:
    """Accuracy along every run, a panel for each method and a colour for each recipe."""
    from residapt_bench.report.figures import curves_figure

    write_figure(out, curves_figure(records_of(files), methods.split(","), arch=arch, note=note))


@app.command(epilog="Example: residapt bench sweeps benchmarks/results/svhn-mnist.jsonl -o docs/sweeps.svg")
def sweeps(files: Files, arch: ArchOption = "lenet", out: FigureOut = Path("sweeps.svg")) -> None:
    """Accuracy against the weights of stream loss and rank penalty."""
    from residapt_bench.report.figures import sweep_figure

    write_figure(out, sweep_figure(records_of(files), arch=arch))


def write_figure(path: Path, picture: str) -> None:
    """Write an SVG and say so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(picture, encoding="utf-8")
    console.print(f"Wrote {path}", highlight=False)
