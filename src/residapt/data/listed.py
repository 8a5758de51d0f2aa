"""Lists of images: a CSV or Parquet file with a column of paths, and for labelled images one of classes."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from residapt.errors import ConfigError, DataError

SUFFIXES = (".csv", ".parquet")
PATH, CLASS = ("path", "file", "filename", "image"), ("class", "label")
"""Names of the two columns."""


def is_list(place: Path) -> bool:
    """Whether a place is taken for a list of images."""
    return place.suffix.lower() in SUFFIXES and not place.is_dir()


def read_list(file: Path, *, labelled: bool) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Paths, from the list's own folder unless they begin at the root, and class names (none unless ``labelled``)."""
    wanted = (PATH, CLASS) if labelled else (PATH,)
    read = _csv_rows if file.suffix.lower() == ".csv" else _parquet_rows
    paths, classes = [], []
    for number, cells in read(file, wanted):
        if not all(cells):
            what = "path" if not cells[0] else "class"
            raise DataError(f"'{file}', row {number}: the {what} is empty. Write it there, or remove the row.")
        paths.append(file.parent / cells[0])
        classes += cells[1:]
    if not paths:
        raise DataError(f"list '{file}' names no image. Write one row for each.")
    for path in paths[:: max(1, len(paths) // 100)]:  # others are found to be missing when they are read
        if not path.exists():
            raise DataError(f"'{file}': image '{path}' does not exist. Paths are taken from the folder of the list.")
    return tuple(paths), tuple(classes)


def ordered(names: Sequence[str]) -> tuple[str, ...]:
    """Class names in order: as numbers where all of them are."""
    found = set(names)
    return tuple(sorted(found, key=int) if all(name.isdecimal() for name in found) else sorted(found))


def root_of(file: Path, paths: Sequence[Path]) -> Path:
    """The folder that names of images begin at: that of the list, or one that holds all of them."""
    inside = str(file.parent) + os.sep
    if all(str(path).startswith(inside) for path in paths):
        return file.parent
    return Path(os.path.commonpath([path.parent for path in paths]))


def _csv_rows(file: Path, wanted: Sequence[Sequence[str]]) -> Iterator[tuple[int, list[str]]]:
    try:
        with file.open(encoding="utf-8-sig", newline="") as text:
            reader = csv.reader(text, skipinitialspace=True)
            places = _places(file, [cell.strip() for cell in next(reader, [])], wanted)
            for number, cells in enumerate(reader, 1):
                if len(cells) > max(places):
                    yield number, [cells[place].strip() for place in places]
                elif any(cells):
                    raise DataError(f"'{file}', row {number} has {len(cells)} cells. Write one for each column.")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"list '{file}' cannot be read: {error}. Give a CSV file in UTF-8.") from None


def _parquet_rows(file: Path, wanted: Sequence[Sequence[str]]) -> Iterator[tuple[int, list[str]]]:
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
                        "Images inside of Parquet files are read by datasets.load_dataset('parquet', ...)."
                    )
                yield number, ["" if cell is None else str(cell) for cell in cells]
    except (OSError, ArrowException) as error:
        raise DataError(f"list '{file}' cannot be read: {error}. Give a Parquet file.") from None


def _places(file: Path, names: Sequence[str], wanted: Sequence[Sequence[str]]) -> list[int]:
    """Where the wanted columns are."""
    lower = [name.lower() for name in names]
    found = [next((lower.index(name) for name in known if name in lower), -1) for known in wanted]
    if -1 in found:
        missing = wanted[found.index(-1)]
        raise DataError(
            f"list '{file}' has the columns {', '.join(names) or '(none)'}, but none is called "
            f"{' or '.join(missing)}. Name the columns in the first line: path,class."
        )
    return found
