"""``residapt bench suggest``: labels of suggested images against labels of random ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from residapt.cli.app import console
from residapt_bench.cli.group import RESULTS, DataRoot, app, data_root

CACHE = Path.home() / ".cache" / "residapt" / "proving-ground"


@app.command(epilog="Example: residapt bench suggest --seeds 0,1 --data DIR")
def suggest(
    data: DataRoot = None,
    only: Annotated[str, typer.Option(help="Some of its pairs, separated by commas.")] = "",
    seeds: Annotated[str, typer.Option(help="Some of its seeds, separated by commas.")] = "",
    table: Annotated[bool, typer.Option("--table", help="Only print the table, as Markdown.")] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="JSONL file of the records.")] = RESULTS / "suggest.jsonl",
    cache: Annotated[Path, typer.Option(help="Folder where the pairs are kept.")] = CACHE,
) -> None:
    """Fifty suggested labels against fifty random ones on three pairs of the proving ground; runs what is missing."""
    from residapt_bench.cli.run import listed, numbers
    from residapt_bench.progress import write_line
    from residapt_bench.proving_ground.suggest import (
        CHOICE,
        SEEDS,
        TASKS,
        read_suggest_records,
        run_missing,
        suggest_table,
    )

    if not table:
        for one in run_missing(listed(only) or TASKS, numbers(seeds) or SEEDS[CHOICE], out, data_root(data), cache):
            text = f"no labels {one.unlabelled:.1f} %, random {one.random:.1f} %, suggested {one.suggested:.1f} %"
            write_line(f"{one.task} seed {one.seed}: {text}", out.with_suffix(".log"))
    console.print(suggest_table(read_suggest_records(out)), markup=False, highlight=False, soft_wrap=True)
