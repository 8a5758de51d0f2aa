"""``residapt compare``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from residapt.cli.app import app, console, messages
from residapt.cli.options import OverwriteOption

if TYPE_CHECKING:
    from residapt.report.compare import FinishedRun


@app.command(epilog="Example: residapt compare run-1/ run-2/ -o comparison.html")
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write the comparison as a page that works offline.")
    ] = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Compare finished runs: accuracy, label-free scores, verdict, size and time."""
    from residapt.errors import DataError
    from residapt.storage.atomic import refuse_existing
    from residapt.storage.run_directory import RunDirectory

    if out is not None:
        refuse_existing(out, overwrite=overwrite)
    for path in runs:
        RunDirectory.open(path)  # before torch is loaded
    from residapt.report.compare import cautions, read_finished, write_comparison

    found: list[FinishedRun] = []
    for path in runs:
        try:
            found.append(read_finished(path))
        except DataError as error:  # has not finished; what is no run at all is refused
            messages.print(f"left out: {error}", markup=False, highlight=False, soft_wrap=True)
    if not found:
        raise DataError(f"none of the {len(runs)} runs given has finished and can be read. Give finished runs.")
    console.print(overview(found))
    if any(run.summary.scores for run in found):
        console.print(scores(found))
    for text in cautions(found):
        messages.print(f"note: {text}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    if out is not None:
        write_comparison(found, out)
        console.print(f"comparison: {out}", markup=False, highlight=False, soft_wrap=True)


def overview(runs: Sequence[FinishedRun]) -> Table:
    """A row for each run."""
    from residapt.report.compare import VERDICTS, in_megabytes, scored_names

    names = scored_names(runs)
    table = Table("run", "method", title="Runs")
    for name, protocol in names:
        table.add_column(escape(f"{name}, % ({protocol})"), justify="right")
    table.add_column("verdict")
    table.add_column("selected")
    table.add_column("MB", justify="right")
    table.add_column("minutes", justify="right")
    for run in runs:
        verdict = (VERDICTS[run.summary.verdict.helped][0], run.summary.verdict.selected)
        method = f"{run.summary.method} ({run.recipe})" if run.recipe else run.summary.method
        accuracies = [_change(run, key) for key in names]
        cells = [run.name, method, *accuracies, *verdict, in_megabytes(run.size), f"{run.minutes:.1f}"]
        table.add_row(*map(escape, cells))
    return table


def _change(run: FinishedRun, key: tuple[str, str]) -> str:
    one = run.scored.get(key)
    if one is None:
        return "–"
    return " → ".join("–" if value is None else f"{value:.1f}" for value in (one.before, one.after))


def scores(runs: Sequence[FinishedRun]) -> Table:
    """A row for each score, since there are many of them, and a column for each run."""
    from residapt.report.compare import score_keys
    from residapt.report.words import number, score_name

    table = Table("score", title="Label-free scores of the adapted networks (higher is better)")
    for run in runs:
        table.add_column(escape(run.name), justify="right")
    for key in score_keys(runs):
        table.add_row(score_name(key), *(number(run.summary.scores.get(key, (0.0, float("nan")))[1]) for run in runs))
    return table
