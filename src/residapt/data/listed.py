"""Lists of images: a Parquet file with columns of paths and classes, or a CSV file of unlabelled images."""

from __future__ import annotations

import csv
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from residapt.data.labels_csv import HEADERS
from residapt.errors import ConfigError, DataError

SUFFIXES = (".csv", ".txt", ".parquet")
CHECKED = 100
"""Images of a list whose files are checked before anything is read."""


def is_list(place: Path) -> bool:
    """Whether a place is taken for a list of images."""
    return place.suffix.lower() in SUFFIXES and not place.is_dir()


def read_list(file: Path, *, labelled: bool) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Paths, from the list's own folder unless they begin at the root, and class names (none unless ``labelled``)."""
    wanted = HEADERS if labelled else HEADERS[:1]
    read = _parquet_rows if file.suffix.lower() == ".parquet" else _csv_rows
    paths, classes = [], []
    for number, cells in read(file, wanted):
        if not all(cells):
            what = "path" if not cells[0] else "class"
            raise DataError(f"'{file}', row {number}: the {what} is empty. Write it there, or remove the row.")
        paths.append(file.parent / cells[0])
        classes += cells[1:]
    if not paths:
        raise DataError(f"list '{file}' names no image. Write one row for each.")
    for number in range(0, len(paths), max(1, len(paths) // CHECKED)):  # others are missed when they are read
        if not paths[number].exists():
            raise DataError(
                f"'{file}', row {number + 1}: image '{paths[number]}' does not exist. Paths are taken from the folder "
                "of the list."
            )
    return tuple(paths), tuple(classes)


def root_of(file: Path, paths: Sequence[Path]) -> Path:
    """The folder that names of images begin at: that of the list, or one that holds all of them."""
    inside = str(file.parent) + os.sep
    if all(str(path).startswith(inside) for path in paths):
        return file.parent
    return Path(os.path.commonpath([path.parent for path in paths]))


def _csv_rows(file: Path, wanted: Sequence[Collection[str]]) -> Iterator[tuple[int, list[str]]]:
    """The column of paths; the first one, where the first line has no names of columns."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as text:
            place = -1
            for number, cells in enumerate(csv.reader(text, skipinitialspace=True), 1):
                names = [cell.strip().lower() for cell in cells]
                if place < 0:
                    place = next((where for where, name in enumerate(names) if name in wanted[0]), -1)
                    if place >= 0:
                        continue
                    place = 0
                if any(names):
                    yield number, [cells[place].strip() if place < len(cells) else ""]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"list '{file}' cannot be read: {error}. Give a CSV file in UTF-8.") from None


def _parquet_rows(file: Path, wanted: Sequence[Collection[str]]) -> Iterator[tuple[int, list[str]]]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise ConfigError(
            f"'{file}' is a Parquet file, and pyarrow, which reads those, is not installed. "
            "Run: pip install 'residapt[parquet]'"
        ) from None
    try:
        table = parquet.ParquetFile(file)
        names = table.schema_arrow.names
        columns = [names[place] for place in _places(file, names, wanted)]
        number = 0
        for part in table.iter_batches(columns=columns):
            for cells in zip(*(part.column(name).to_pylist() for name in columns), strict=True):
                number += 1
                if not isinstance(cells[0], str):
                    raise DataError(
                        f"'{file}', row {number}: column '{columns[0]}' holds a {type(cells[0]).__name__} and no path. "
                        "Images inside Parquet files are read by datasets.load_dataset('parquet', ...)."
                    )
                yield number, ["" if cell is None else str(cell) for cell in cells]
    except (OSError, ArrowException) as error:
        raise DataError(f"list '{file}' cannot be read: {error}. Give a Parquet file.") from None


def _places(file: Path, names: Sequence[str], wanted: Sequence[Collection[str]]) -> list[int]:
    """Where the wanted columns are."""
    lower = [name.lower() for name in names]
    found = [next((place for place, name in enumerate(lower) if name in known), -1) for known in wanted]
    if -1 in found:
        missing = wanted[found.index(-1)]
        raise DataError(
            f"list '{file}' has the columns {', '.join(names) or '(none)'}, but none is called "
            f"{' or '.join(sorted(missing))}. Name them path and class."
        )
    return found
