"""``residapt suggest``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from residapt.cli.app import app, console
from residapt.cli.options import (
    LARGEST_SEED,
    SMALLEST_SEED,
    DeviceOption,
    OverwriteOption,
    QuietOption,
    TrustOption,
)
from residapt.cli.progress import image_progress

if TYPE_CHECKING:
    from residapt.deploy.suggest import Suggestion


@app.command(epilog="Example: residapt suggest run/ -n 50 -o few.csv")
def suggest(
    run: Annotated[Path, typer.Argument(help="Directory of a finished run.")],
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many images.")] = 50,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="CSV file to fill in; by default the images are only shown.")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=SMALLEST_SEED, max=LARGEST_SEED, help="Seed of the choice among similar images.")
    ] = 0,
    device: DeviceOption = "auto",
    overwrite: OverwriteOption = False,
    trust_code: TrustOption = False,
    quiet: QuietOption = False,
) -> None:
    """Suggest target images to label next: uncertain, disputed between the networks, and unlike one another."""
    from residapt.storage.atomic import refuse_existing
    from residapt.storage.run_directory import RunDirectory

    opened = RunDirectory.open(run)
    if out is not None:
        refuse_existing(out, overwrite=overwrite)
    from residapt.storage.summary import read_summary

    read_summary(opened.summary)  # a run that has not finished has nothing to suggest

    from residapt.deploy.suggest import suggest_images, write_suggestions

    with image_progress("reading images") as on_images:
        found = suggest_images(run, count, seed=seed, device=device, trust_code=trust_code, on_images=on_images)
    console.print(suggestion_table(found))
    if out is None:
        console.print("Write them into a list to fill in with -o few.csv.", highlight=False, soft_wrap=True)
        return
    write_suggestions(found, out, overwrite=overwrite)
    for line in (
        f"{len(found)} images in {out}: write the class of each behind the comma; delete lines of no class.",
        f"Next: residapt adapt ... --base {shlex.quote(str(run))} --target-labels {shlex.quote(str(out))} -o NEW",
    ):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def suggestion_table(found: list[Suggestion]) -> Table:
    """A row for each image, with what both networks say."""
    table = Table("image", "source network", "adapted network", title="Label these next")
    table.add_column("entropy", justify="right")
    for one in found:
        table.add_row(escape(one.path), escape(one.before), escape(one.after), f"{one.worth:.2f}")
    return table
