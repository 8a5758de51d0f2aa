"""Labelled target images, given as a label file, class folders or data in memory, and the record of them in a run.

The record, ``labelled.csv``, says which target images had labels: they are never scored, and resuming compares them.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from residapt.data.decode import UnreadableImageError, decode_image
from residapt.data.domains import Images, JoinedImages
from residapt.data.labelled_files import target_folder
from residapt.data.labels_csv import LabelLine, read_label_file
from residapt.data.same_files import Mark, mark_of, pixel_digests, which_among, which_common
from residapt.data.sources import OpenImages, OpenLabelled, Reading, open_evaluation, open_files
from residapt.data.split import Part
from residapt.errors import DataError

NAME = "target_labels"
Name = Callable[[int], str]
"""What to call the image of a number in a message."""

COLUMNS = ("path", "class", "bytes", "sha256")
"""Of the record."""


def open_few(data: Any, target: Any, reading: Reading, classes: Sequence[str]) -> OpenLabelled:
    """The labelled target images. What source takes is taken here as well, and a CSV file with paths and classes."""
    if isinstance(data, (str, Path)) and not Path(data).is_dir():
        opened, name = _open_lines(Path(data), target_folder(data, target), reading, classes)
    else:
        opened = open_evaluation(data, reading, classes, NAME)
        name = opened.images.name
    _refuse_contradictions(opened, name)
    return replace(opened, images=replace(opened.images, notes=(*opened.images.notes, *_missing_classes(opened))))


def same_images(images: OpenImages, others: OpenImages) -> Tensor:
    """Which of ``images`` are among ``others``: files by place and content, all else by its pixels."""
    both = images.files and others.files
    same = which_among(images.files, others.files) if both else which_common(images.plain, others.plain)
    return torch.tensor(same, dtype=torch.bool)


def marks_of(images: OpenImages) -> list[Mark]:
    """What tells each image from others: the content of its file, or its pixels."""
    if images.files:
        return [mark_of(path) for path in images.files]
    return [Mark(0, digest) for digest in pixel_digests(images.plain)]


def with_few(target: OpenImages, few: OpenImages) -> Images:
    """The target images to train on without labels: the target's, and the labelled ones that are not among them."""
    more = (~same_images(few, target)).nonzero().flatten()
    return JoinedImages(target.train, Part(few.train, more)) if len(more) else target.train


def _open_lines(file: Path, target: Path, reading: Reading, classes: Sequence[str]) -> tuple[OpenLabelled, Name]:
    lines = read_label_file(file, target, classes)
    images = _open_all(file, lines, target, reading)
    labels = torch.tensor([line.label for line in lines], dtype=torch.long)
    return OpenLabelled(images, labels, tuple(classes)), lambda index: f"line {lines[index].number} of '{file}'"


def _open_all(file: Path, lines: Sequence[LabelLine], target: Path, reading: Reading) -> OpenImages:
    """The images of a label file, of which none is left out, since each was labelled by hand."""
    try:
        images, kept = open_files([line.path for line in lines], target, reading, NAME, whole=True)
    except DataError as error:  # raised where more than half of them cannot be read
        raise _unreadable(file, lines, reading) or error from None
    if len(kept) < len(lines) and (bad := _unreadable(file, lines, reading)):
        raise bad
    return images


def _unreadable(file: Path, lines: Sequence[LabelLine], reading: Reading) -> DataError | None:
    """The first image that cannot be read, with its line."""
    for line in lines:
        try:
            decode_image(line.path, size=reading.form.size, channels=reading.form.channels)
        except UnreadableImageError as error:
            return DataError(f"'{file}', line {line.number}: {error}")
    return None


def _refuse_contradictions(opened: OpenLabelled, name: Name) -> None:
    """The same image twice with two classes: one of the two is wrong, and nobody but the user knows which."""
    first: dict[Mark, int] = {}
    for place, mark in enumerate(marks_of(opened.images)):
        other = first.setdefault(mark, place)
        mine, theirs = (opened.classes[int(opened.labels[i])] for i in (place, other))
        if mine != theirs:
            raise DataError(
                f"{NAME}: {name(place)} and {name(other)} are the same image with two classes, '{mine}' and "
                f"'{theirs}'. Keep the right one."
            )


def _missing_classes(opened: OpenLabelled) -> tuple[str, ...]:
    there = set(opened.labels.tolist())
    missing = [name for label, name in enumerate(opened.classes) if label not in there]
    if not missing:
        return ()
    shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
    return (f"no labelled target image shows {shown}: they are learned without target labels.",)


@dataclass(frozen=True)
class LabelRecord:
    """One labelled target image."""

    path: str
    """Its name: from the target folder, or its number."""
    label: str
    """Name of its class."""
    mark: Mark
    """Its content."""


def label_records_of(opened: OpenLabelled | None) -> tuple[LabelRecord, ...]:
    """A record for each labelled image."""
    if opened is None:
        return ()
    marks = marks_of(opened.images)
    return tuple(
        LabelRecord(opened.images.name(i), opened.classes[label], marks[i])
        for i, label in enumerate(opened.labels.tolist())
    )


def write_label_records(records: tuple[LabelRecord, ...], path: Path) -> None:
    """Write the file; it can be given as a label file again once the last two columns are cut off."""
    with path.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows((one.path, one.label, one.mark.size, one.mark.digest) for one in records)


def read_label_records(path: Path) -> tuple[LabelRecord, ...]:
    """The labelled images of a run; a run without the file had none."""
    if not path.exists():
        return ()
    try:
        with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            rows = list(csv.reader(file))
        if not rows or tuple(rows[0]) != COLUMNS:
            raise ValueError(f"its columns are not {', '.join(COLUMNS)}")
        return tuple(LabelRecord(name, label, Mark(int(size), digest)) for name, label, size, digest in rows[1:])
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(f"'{path}', the list of labelled images of this run, cannot be read: {error}.") from None


def check_unchanged(now: tuple[LabelRecord, ...], path: Path) -> None:
    """Refuse to resume with other labelled images than those that a run was begun with."""
    then = read_label_records(path)
    if set(now) == set(then):
        return
    old, new = {one.path: one for one in then}, {one.path: one for one in now}
    odd = next(name for name in (*old, *new) if old.get(name) != new.get(name))
    raise DataError(
        f"target_labels have changed since this run was begun ({len(then)} labelled images then, {len(now)} now; "
        f"'{odd}' {_change(old.get(odd), new.get(odd))}). Restore them, or start a new run with another -o."
    )


def _change(old: LabelRecord | None, new: LabelRecord | None) -> str:
    if old is None:
        return "is new"
    if new is None:
        return "is gone"
    return f"was '{old.label}' and is '{new.label}'" if old.label != new.label else "is another image now"
