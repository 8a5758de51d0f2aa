"""``residapt eval``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from residapt.cli.app import app, console, show_json
from residapt.cli.options import (
    BaseOption,
    BatchOption,
    DeviceOption,
    JsonOption,
    OverwriteOption,
    QuietOption,
    RunArgument,
    TrustOption,
)
from residapt.cli.progress import image_progress, list_unreadable
from residapt.data.image_files import require_folder
from residapt.storage.atomic import atomic_file, refuse_existing
from residapt.storage.run_directory import check_result

if TYPE_CHECKING:
    from residapt.deploy import FolderScores

_CONFUSIONS = 10
"""Most frequent confusions that are listed where the whole matrix does not fit."""


@app.command("eval", epilog="Example: residapt eval run/ labelled/ -o scores.json")
def evaluate(
    run: RunArgument,
    labelled: Annotated[Path, typer.Argument(help="Folder of class folders, or CSV file (path,class).")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write all scores into this JSON file.")] = None,
    positive: Annotated[
        str | None,
        typer.Option(
            "--positive",
            help="Positive class for average precision; of two classes by default the one with fewer images.",
        ),
    ] = None,
    batch_size: BatchOption = 64,
    device: DeviceOption = "auto",
    base: BaseOption = None,
    overwrite: OverwriteOption = False,
    trust_code: TrustOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Score a run on labelled images: accuracy, classes, confusion matrix, average precision, calibration."""
    if out is not None:
        refuse_existing(out, overwrite=overwrite)
    check_result(run)
    if not labelled.is_file():
        require_folder(labelled)
    from residapt.deploy import evaluate_folder, load_run

    deployed = load_run(run, base=base, device=device, trust_code=trust_code)
    with image_progress("scoring") as on_images:
        scores = evaluate_folder(deployed, labelled, batch_size=batch_size, positive=positive, on_images=on_images)
    if out is not None:
        with atomic_file(out, overwrite=overwrite) as temporary:
            temporary.write_text(scores.model_dump_json(indent=1), encoding="utf-8")
    if as_json:
        show_json(scores)
    else:
        show_scores(scores)
    list_unreadable(scores.unreadable)


def show_scores(scores: FolderScores) -> None:
    """Totals, a table of classes, and the confusion matrix, or where it does not fit the most frequent confusions."""
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
    matrix = confusion_table(scores)
    width = Measurement.get(console, console.options.update(max_width=10_000), matrix).maximum
    console.print(matrix if width <= console.width else frequent_confusions(scores))


PROTOCOLS = {
    "transductive": "transductive: some were used, unlabelled, for adaptation",
    "held-out": "held-out",
    "unknown": "unknown whether they were used for adaptation",
}


def detection_lines(scores: FolderScores) -> list[str]:
    """Images that were left out, and the average precision of the positive class."""
    lines = []
    if scores.left_out:
        lines.append(f"{scores.left_out} images are left out: the run has trained on their labels.")
    if scores.detection is not None:
        found = scores.detection
        share = found.positives / (found.positives + found.negatives)
        lines.append(
            f"average precision {found.average_precision:.3f} of '{found.positive}' ({found.positives} images) against "
            f"{found.negatives} others; a random ranking has {share:.3f}. Choose another class with --positive."
        )
    error = 100 * scores.calibration.error
    lines.append(f"expected calibration error {error:.1f} %: how far confidence and accuracy are apart on average.")
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
    """Counts: true classes down, predicted ones across, by name."""
    table = Table("true class", title="Confusion matrix: columns are predictions")
    for row in scores.classes:
        table.add_column(escape(row.name), justify="right", no_wrap=True)
    for row, counts in zip(scores.classes, scores.confusion, strict=True):
        table.add_row(escape(row.name), *map(str, counts))
    return table


def frequent_confusions(scores: FolderScores) -> Table:
    """Pairs of a true and a predicted class, those with most images first; the file has all counts."""
    names = [row.name for row in scores.classes]
    pairs = [
        (number, names[true], names[found])
        for true, row in enumerate(scores.confusion)
        for found, number in enumerate(row)
        if number and true != found
    ]
    table = Table("true class", "predicted as", title="Most frequent confusions (-o FILE has the whole matrix)")
    table.add_column("images", justify="right")
    for number, true, found in sorted(pairs, key=lambda pair: -pair[0])[:_CONFUSIONS]:
        table.add_row(escape(true), escape(found), str(number))
    return table


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} %"
