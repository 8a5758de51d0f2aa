"""``residapt eval``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from residapt.cli.app import app, console
from residapt.cli.options import BaseOption, BatchOption, DeviceOption, OverwriteOption, RunArgument, TrustOption
from residapt.cli.progress import image_progress, list_unreadable

if TYPE_CHECKING:
    from residapt.deploy import FolderScores

# A wider matrix than this does not fit a terminal; the file has all of it.
_MATRIX = 12


@app.command("eval", epilog="Example: residapt eval run/ labelled/ -o scores.json")
def evaluate(
    run: RunArgument,
    labelled: Annotated[Path, typer.Argument(help="Folder with one folder of images for each class.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write all scores into this JSON file.")] = None,
    positive: Annotated[
        str | None,
        typer.Option("--positive", help="Class to be found; of two, the one with fewer images if not given."),
    ] = None,
    batch_size: BatchOption = 64,
    device: DeviceOption = "auto",
    base: BaseOption = None,
    overwrite: OverwriteOption = False,
    trust_code: TrustOption = False,
) -> None:
    """Score a run on labelled images: accuracy, each class, confusion matrix, average precision."""
    from residapt.deploy import evaluate_folder, load_run
    from residapt.storage.atomic import atomic_file, refuse_existing

    if out is not None:
        refuse_existing(out, overwrite=overwrite)
    deployed = load_run(run, base=base, device=device, trust_code=trust_code)
    with image_progress("scoring") as on_images:
        scores = evaluate_folder(deployed, labelled, batch_size=batch_size, positive=positive, on_images=on_images)
    if out is not None:
        with atomic_file(out, overwrite=overwrite) as temporary:
            temporary.write_text(scores.model_dump_json(indent=1), encoding="utf-8")
    show_scores(scores)
    list_unreadable(scores.unreadable)


def show_scores(scores: FolderScores) -> None:
    """Totals, a table of classes, and the confusion matrix where it fits."""
    ap = "-" if scores.average_precision is None else f"{scores.average_precision:.3f}"
    console.print(
        f"accuracy {scores.accuracy:.2f} % on {scores.images} images ({PROTOCOLS[scores.protocol]}), "
        f"mean of the classes {scores.class_accuracy:.2f} %, mean of their average precisions {ap}",
        highlight=False,
        soft_wrap=True,
    )
    for line in detection_lines(scores):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(class_table(scores))
    if len(scores.classes) <= _MATRIX:
        console.print(confusion_table(scores))


PROTOCOLS = {
    "transductive": "transductive: some were seen, unlabelled, in adaptation",
    "held-out": "held-out",
    "unknown": "not known whether they were seen in adaptation",
}


def detection_lines(scores: FolderScores) -> list[str]:
    """What was looked for and how well it was found; and what was left out."""
    lines = []
    if scores.left_out:
        lines.append(f"{scores.left_out} images are left out: the run has trained on their labels.")
    if scores.detection is not None:
        found = scores.detection
        share = found.positives / (found.positives + found.negatives)
        lines.append(
            f"average precision {found.average_precision:.3f} of '{found.positive}' ({found.positives} images) against "
            f"{found.negatives} others; a random ranking has {share:.3f}. --positive names another class."
        )
    return lines


def class_table(scores: FolderScores) -> Table:
    """A row for each class."""
    table = Table("class", title="Classes")
    for column in ("images", "accuracy", "precision", "AP"):
        table.add_column(column, justify="right")
    for row in scores.classes:
        ap = "-" if row.average_precision is None else f"{row.average_precision:.3f}"
        table.add_row(escape(row.name), str(row.images), _percent(row.accuracy), _percent(row.precision), ap)
    return table


def confusion_table(scores: FolderScores) -> Table:
    """Counts: true classes down, predicted ones across, by number since names are long."""
    table = Table("true class", title="Confusion matrix: columns are predictions")
    for number in range(len(scores.classes)):
        table.add_column(str(number), justify="right")
    for number, (row, counts) in enumerate(zip(scores.classes, scores.confusion, strict=True)):
        table.add_row(f"{number} {escape(row.name)}", *map(str, counts))
    return table


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} %"
