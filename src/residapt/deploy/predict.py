"""Classes for a folder of images, as a stream of rows and as a CSV or JSONL file."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO

from residapt.data.image_files import list_images
from residapt.deploy.domains import DeployedDomains
from residapt.deploy.images import decoded_batches
from residapt.deploy.load_run import DeployedModel
from residapt.errors import ConfigError, DataError
from residapt.storage.atomic import atomic_file

RowFormat = Literal["csv", "jsonl"]


@dataclass(frozen=True)
class Prediction:
    """One image."""

    path: str
    """Relative to the folder, with forward slashes."""
    label: str
    """The most probable class."""
    probability: float
    """Its probability, by softmax."""


@dataclass(frozen=True)
class UnreadableImage:
    """A file that could not be decoded."""

    path: str
    """Relative to the folder."""
    reason: str
    """Why."""


@dataclass(frozen=True)
class PredictionCount:
    """How many images of a folder have a prediction, and which files could not be read."""

    images: int
    """Images with a prediction."""
    unreadable: tuple[UnreadableImage, ...]
    """Files without."""


def folder_images(folder: Path) -> list[Path]:
    """The images at any depth, or the one image given; an empty folder is refused."""
    paths = [folder] if folder.is_file() else list_images(folder)
    if not paths:
        raise DataError(f"folder '{folder}' has no images at any depth. Give a folder with .jpg, .png or other images.")
    return paths


def predict_folder(
    deployed: DeployedModel | DeployedDomains,
    folder: Path,
    *,
    batch_size: int = 64,
    on_images: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[Prediction | UnreadableImage]:
    """Predictions for all images of a folder, batch by batch; ``on_images(done, total)`` reports progress.

    With adapters of many domains, the folder has one folder for each.
    """
    if batch_size < 1:
        raise ConfigError(f"batch_size must be 1 or more, got {batch_size}.")
    paths = folder_images(folder)
    root = folder.parent if folder.is_file() else folder
    names = [_relative(path, root) for path in paths]
    if isinstance(deployed, DeployedDomains):
        deployed.check(names)
    done, base = 0, deployed.base if isinstance(deployed, DeployedDomains) else deployed
    for batch in decoded_batches(paths, base.input, batch_size):
        yield from (UnreadableImage(_relative(bad.path, root), bad.reason) for bad in batch.unreadable)
        if len(batch.places):
            places = batch.places.tolist()
            if isinstance(deployed, DeployedDomains):
                logits = deployed.logits(batch.pixels, [names[place] for place in places])
            else:
                logits = deployed.logits(batch.pixels)
            best = logits.softmax(1).max(1)
            for place, value, index in zip(places, best.values.tolist(), best.indices.tolist(), strict=True):
                yield Prediction(names[place], base.classes[index], value)
        done += len(batch.places) + len(batch.unreadable)
        on_images(done, len(paths))


def write_predictions(
    rows: Iterable[Prediction | UnreadableImage],
    out: Path,
    *,
    form: RowFormat | None = None,
    overwrite: bool = False,
) -> PredictionCount:
    """Write ``path, class, probability`` as rows come; by default JSONL for names that end so, else CSV."""
    form = form or ("jsonl" if out.suffix.lower() in (".jsonl", ".ndjson") else "csv")
    with (
        atomic_file(out, overwrite=overwrite) as temporary,
        # Names of files are bytes; those that are not UTF-8 are written as they are on the disk.
        temporary.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file,
    ):
        return print_predictions(rows, file, form)


def print_predictions(rows: Iterable[Prediction | UnreadableImage], file: TextIO, form: RowFormat) -> PredictionCount:
    """The same into an open file; refused at the end if no image at all could be read."""
    write = _csv_writer(file) if form == "csv" else _jsonl_writer(file)
    count, unreadable = 0, []
    for row in rows:
        if isinstance(row, UnreadableImage):
            unreadable.append(row)
        else:
            write(row)
            count += 1
    if unreadable and not count:
        first = unreadable[0]
        raise DataError(
            f"none of the {len(unreadable)} images can be read; the first is '{first.path}': {first.reason}."
        )
    return PredictionCount(count, tuple(unreadable))


def _csv_writer(file: TextIO) -> Callable[[Prediction], None]:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("path", "class", "probability"))

    def write(row: Prediction) -> None:
        writer.writerow((row.path, row.label, f"{row.probability:.6f}"))

    return write


def _jsonl_writer(file: TextIO) -> Callable[[Prediction], None]:
    def write(row: Prediction) -> None:
        values = {"path": row.path, "class": row.label, "probability": round(row.probability, 6)}
        file.write(json.dumps(values) + "\n")

    return write


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()
