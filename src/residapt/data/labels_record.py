"""``labelled.csv`` of a run: which target images had labels. They are never scored, and resuming compares them."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from residapt.data.labels import marks_of
from residapt.data.same_files import Mark
from residapt.data.sources import OpenLabelled
from residapt.errors import DataError

COLUMNS = ("path", "class", "bytes", "sha256")


@dataclass(frozen=True)
class LabelRecord:
    """One labelled target image."""

    path: str
    """Its name: from the target folder, or its number."""
    label: str
    """Name of its class."""
    mark: Mark
    """Its content."""


def records_of(opened: OpenLabelled | None) -> tuple[LabelRecord, ...]:
    """A record for each labelled image."""
    if opened is None:
        return ()
    marks = marks_of(opened.images)
    return tuple(
        LabelRecord(opened.images.name(i), opened.classes[label], marks[i])
        for i, label in enumerate(opened.labels.tolist())
    )


def write_records(records: tuple[LabelRecord, ...], path: Path) -> None:
    """Write the file; it can be given as a label file again once the last two columns are cut off."""
    with path.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows((one.path, one.label, one.mark.size, one.mark.digest) for one in records)


def read_records(path: Path) -> tuple[LabelRecord, ...]:
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
    """Refuse to go on with other labelled images than those that a run was begun with."""
    then = read_records(path)
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
