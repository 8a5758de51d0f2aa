"""Commands that only read records: ``residapt bench guard`` and ``residapt bench paired``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from residapt.cli.app import bench_app, console
from residapt.cli.bench_grid import records_of
from residapt.errors import DataError

Files = Annotated[list[Path], typer.Argument(help="JSONL files of records.")]


@bench_app.command(epilog="Example: residapt bench guard benchmarks/results/*.jsonl")
def guard(files: Files, markdown: Annotated[bool, typer.Option(help="Print Markdown.")] = False) -> None:
    """What the negative-transfer guard says of recorded runs, beside what the labels say."""
    from residapt.bench.guard_check import guard_markdown, guard_table, guard_totals, judge

    judged = judge(records_of(files))
    if not judged:
        raise DataError(
            "these files hold no adapted run with label-free measurements beside a source_only run of the same start."
        )
    console.print(guard_markdown(judged) if markdown else guard_table(judged), highlight=False, soft_wrap=markdown)
    console.print(guard_totals(judged), highlight=False, soft_wrap=True)


@bench_app.command(epilog="Example: residapt bench paired benchmarks/results/svhn-mnist.jsonl rpt dann_flip")
def paired(
    file: Annotated[Path, typer.Argument(help="JSONL file of records.")],
    first: Annotated[str, typer.Argument(help="A method.")],
    second: Annotated[str, typer.Argument(help="The method that it is compared with.")],
    arch: Annotated[str, typer.Option(help="Network.")] = "lenet",
    note: Annotated[str, typer.Option(help="Only runs with this note.")] = "",
) -> None:
    """Difference of two methods over the seeds that both have, with its 95 % interval."""
    from residapt.bench.paired import paired_difference

    found = paired_difference(records_of([file]), first, second, arch=arch, note=note)
    console.print(found.text(), highlight=False, soft_wrap=True)
