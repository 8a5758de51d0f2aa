"""A label file: one line for each labelled target image, ``path,class``. Errors name the line."""

from __future__ import annotations

import csv
import difflib
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from residapt.data.decode import is_image_name
from residapt.data.folders import scan_target
from residapt.errors import DataError

HEADERS = ({"path", "file", "filename", "image"}, {"class", "label"})
"""Words that may stand above the columns."""
LARGEST = 100_000_000
"""Bytes; a label file of a million images is smaller."""


@dataclass(frozen=True)
class LabelLine:
    """One labelled image."""

    number: int
    """The line of the file that names it first, from 1."""
    path: Path
    """The image, as the target folder has it."""
    label: int
    """Index of its class."""


def read_label_file(file: Path, target: Path, classes: Sequence[str]) -> tuple[LabelLine, ...]:
    """The labelled images of a CSV file, each once; anything that cannot be meant is rejected with its line."""
    reader = _Reader(file, target, tuple(classes))
    found: dict[Path, LabelLine] = {}
    for number, cells in _rows(file):
        line = reader.line(number, cells)
        first = found.setdefault(line.path, line)
        if first.label != line.label:
            raise DataError(
                f"'{file}', line {number}: '{cells[0]}' is '{classes[line.label]}' here, but '{classes[first.label]}' "
                f"in line {first.number}. Keep the right one."
            )
    if not found:
        raise DataError(f"label file '{file}' names no image. Write one line for each: path,class.")
    return tuple(found.values())


def _rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Lines with something in them, without the header."""
    text = io.StringIO(_text(file), newline="")
    reader = csv.reader(text, skipinitialspace=True, strict=True)
    first = True
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(f"'{file}', line {number} is not CSV: {error}. Write it as path,class.") from None
        if not any(cell.strip() for cell in cells):
            continue
        if first and _is_header(cells[::-1]):
            raise DataError(f"'{file}', line {number}: the columns are '{','.join(cells)}'. Exchange them: path,class.")
        if not (first and _is_header(cells)):
            yield number, cells
        first = False


def _is_header(cells: list[str]) -> bool:
    return len(cells) == 2 and all(cell.strip().lower() in words for cell, words in zip(cells, HEADERS, strict=True))


def _text(file: Path) -> str:
    try:
        if not file.exists():
            raise DataError(f"label file '{file}' does not exist. Give a CSV file (path,class), or class folders.")
        if not file.is_file():
            raise DataError(f"label file '{file}' is no file. Give a CSV file (path,class), or class folders.")
        if file.stat().st_size > LARGEST:
            raise DataError(f"label file '{file}' is larger than {LARGEST // 1_000_000} MB; is it the right file?")
        content = file.read_bytes()
    except OSError as error:
        raise DataError(f"label file '{file}' cannot be read: {error.strerror or error}.") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # A byte-order mark is left out of what the error counts in.
        line = content[: error.start + len(content) - len(error.object)].count(b"\n") + 1
        raise DataError(
            f"'{file}', line {line} is not UTF-8 (byte {error.object[error.start]:#04x}). Save the file as UTF-8."
        ) from None


class _Reader:
    """Lines of one file, understood."""

    def __init__(self, file: Path, target: Path, classes: tuple[str, ...]) -> None:
        self.file, self.target, self.classes = file, target, classes
        self.images = {_plain(path): path for path in scan_target(target)}

    @cached_property
    def real(self) -> dict[str, Path]:
        """The target's images by where links lead; only needed for files that are named in another way."""
        return {os.path.realpath(path): path for path in self.images.values()}

    def line(self, number: int, cells: list[str]) -> LabelLine:
        if len(cells) != 2:
            raise self.problem(
                number, f"{len(cells)} column{'s' * (len(cells) != 1)} instead of 2. Write it as path,class."
            )
        if not cells[0].strip() or not cells[1].strip():
            raise self.problem(
                number, f"the {'class' if cells[0].strip() else 'path'} is empty. Write it as path,class."
            )
        return LabelLine(number, self.image(number, cells[0]), self.label(number, cells[1]))

    def label(self, number: int, cell: str) -> int:
        name = cell if cell in self.classes else cell.strip()
        if name in self.classes:
            return self.classes.index(name)
        folded = {known.casefold(): known for known in self.classes}
        near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.5)
        hint = f"Did you mean '{folded[near[0]]}'?" if near else f"Classes: {_listed(self.classes)}."
        raise self.problem(number, f"'{_short(name)}' is not a class of the source. {hint}")

    def image(self, number: int, cell: str) -> Path:
        """The target's image that a cell names: by a path from the target folder, from the file, or from the root."""
        if "\0" in cell:
            raise self.problem(number, "the path contains a NUL character. Write the path of an image.")
        places = [place for text in dict.fromkeys((cell, cell.strip())) for place in self.places(text)]
        for place in places:
            if (known := self.images.get(_plain(place))) is not None:
                return known
        there = next((place for place in places if os.path.exists(place)), None)
        if there is None:
            raise self.problem(
                number, f"image '{_short(cell)}' is not in the target folder '{self.target}'. Correct the path."
            )
        if (known := self.real.get(os.path.realpath(there))) is not None:
            return known
        if there.is_dir() or not is_image_name(there.name):
            raise self.problem(number, f"'{_short(cell)}' is not an image. Give the path of an image.")
        raise self.problem(
            number,
            f"image '{_short(cell)}' lies outside the target folder '{self.target}'. Move it there, or give a folder "
            "of class folders.",
        )

    def places(self, text: str) -> list[Path]:
        path = Path(text)
        return [path] if path.is_absolute() else [self.target / path, self.file.parent / path]

    def problem(self, number: int, what: str) -> DataError:
        return DataError(f"'{self.file}', line {number}: {what}")


def _plain(path: Path) -> str:
    """The path from the root, without ``..``, and without following links."""
    return os.path.normpath(os.path.abspath(path))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


def _short(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:100]}..."
