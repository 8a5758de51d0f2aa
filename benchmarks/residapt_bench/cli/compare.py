"""``residapt bench compare``: two methods over the seeds that both have."""

from __future__ import annotations

from typing import Annotated

import typer

from residapt.cli.app import console
from residapt_bench.cli.group import app, records_of


@app.command(epilog='Example: residapt bench compare svhn-mnist "rpt:by reversal" dann')
def compare(
    name: Annotated[str, typer.Argument(help="Experiment, or JSONL file of records.")],
    first: Annotated[str, typer.Argument(help="A method, or method:note.")],
    second: Annotated[str, typer.Argument(help="The method that it is compared with, or method:note.")],
    picked: Annotated[
        str, typer.Option(help="Each takes, seed by seed, the variant that this label-free score picks.")
    ] = "",
    task: Annotated[str | None, typer.Option(help="Only runs of this task, where there are several.")] = None,
    arch: Annotated[str, typer.Option(help="Only runs of this network.")] = "lenet",
    note: Annotated[str, typer.Option(help="Only runs with this note.")] = "",
    recipe: Annotated[str, typer.Option(help="Recipe of the runs: common, own, plus or default.")] = "common",
    recipe_of_second: Annotated[str, typer.Option(help="Of the second method's runs, where it is another.")] = "",
    steps: Annotated[int | None, typer.Option(help="Only runs of this length, where there are several.")] = None,
    at: Annotated[int | None, typer.Option(help="Compare after so many steps of the runs, not at their end.")] = None,
    varied: Annotated[str, typer.Option(help="What the seed changed: all, or order.")] = "all",
) -> None:
    """Difference of two methods over the seeds that both have, with its 95 % interval."""
    from residapt_bench.report.paired import paired_difference
    from residapt_bench.report.picked import compare_variants, picked_text

    records = records_of([name])
    if picked:
        text = picked_text(compare_variants(records, first, second, recipe), picked)
    else:
        text = paired_difference(
            records,
            first,
            second,
            task=task,
            arch=arch,
            note=note,
            recipe=recipe,
            recipe_of_second=recipe_of_second,
            steps=steps,
            at=at,
            varied=varied,
        ).text()
    console.print(text, highlight=False, soft_wrap=True)
