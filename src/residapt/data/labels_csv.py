"""A label file: one line for each labelled target image, ``path,class``. Errors name the line."""

from __future__ import annotations

import csv
import difflib
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from residapt.data.folders import scan_target
from residapt.data.image_files import is_image_name
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
    images = _TargetImages(file, target)
    lines = (
        LabelLine(number, images.find(number, path), class_number(file, number, name, classes))
        for number, path, name in read_rows(file)
    )
    return each_once(file, lines, classes)


def each_once(file: Path, lines: Iterable[LabelLine], classes: Sequence[str]) -> tuple[LabelLine, ...]:
    """Each image once; one with two classes is refused, and a file that names none."""
    found: dict[Path, LabelLine] = {}
    for line in lines:
        first = found.setdefault(line.path, line)
        if first.label != line.label:
            here, there = classes[line.label], classes[first.label]
            what = f"'{line.path.name}' is '{here}' here, but '{there}' in line {first.number}. Keep the right one."
            raise problem(file, line.number, what)
    if not found:
        raise DataError(f"label file '{file}' names no image. Write one line for each: path,class.")
    return tuple(found.values())


def class_number(file: Path, number: int, cell: str, classes: Sequence[str]) -> int:
    """The class of a cell among those that are known."""
    name = cell if cell in classes else cell.strip()
    if name in classes:
        return classes.index(name)
    folded = {known.casefold(): known for known in classes}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.5)
    hint = f"Did you mean '{folded[near[0]]}'?" if near else f"Classes: {_listed(classes)}."
    raise problem(file, number, f"'{shortened(name)}' is not a class of the source. {hint}")


def problem(file: Path, number: int, what: str) -> DataError:
    """What is wrong with a line."""
    return DataError(f"'{file}', line {number}: {what}")


def places_of(cell: str, *roots: Path) -> list[Path]:
    """Where a path may lead: from the root of the file system, or from one of these folders."""
    paths = [Path(text) for text in dict.fromkeys((cell, cell.strip()))]
    return [place for path in paths for place in ([path] if path.is_absolute() else [root / path for root in roots])]


def read_rows(file: Path) -> Iterator[tuple[int, str, str]]:
    """Number, path and class of each line, without the header."""
    for number, cells in _rows(file):
        if len(cells) != 2:
            many = f"{len(cells)} column{'s' * (len(cells) != 1)}"
            raise problem(file, number, f"{many} instead of 2. Write it as path,class.")
        path, name = cells
        if not path.strip() or not name.strip():
            raise problem(file, number, f"the {'class' if path.strip() else 'path'} is empty. Write it as path,class.")
        if "\0" in path:
            raise problem(file, number, "the path contains a NUL character. Write the path of an image.")
        yield number, path, name


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
            raise DataError(f"label file '{file}' is not a file. Give a CSV file (path,class), or class folders.")
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


class _TargetImages:
    """The images of the target folder, by the paths that a label file may give them."""

    def __init__(self, file: Path, target: Path) -> None:
        self.file, self.target = file, target
        self.images = {normal(path): path for path in scan_target(target)}

    @cached_property
    def real(self) -> dict[str, Path]:
        """The target's images by where links lead; only needed for files that are named in another way."""
        return {os.path.realpath(path): path for path in self.images.values()}

    def find(self, number: int, cell: str) -> Path:
        """The image that a cell names: by a path from the target folder, from the file, or from the root."""
        places = places_of(cell, self.target, self.file.parent)
        for place in places:
            if (known := self.images.get(normal(place))) is not None:
                return known
        there, name = next((place for place in places if os.path.exists(place)), None), shortened(cell)
        if there is None:
            what = f"image '{name}' is not in the target folder '{self.target}'. Correct the path."
            raise problem(self.file, number, what)
        if (known := self.real.get(os.path.realpath(there))) is not None:
            return known
        refuse_no_image(self.file, number, there, name)
        raise problem(
            self.file,
            number,
            f"image '{name}' lies outside the target folder '{self.target}'. Move it there, or give a folder of class "
            "folders.",
        )


def refuse_no_image(file: Path, number: int, place: Path, name: str) -> None:
    """Reject a path that leads to a folder or another kind of file."""
    if place.is_dir() or not is_image_name(place.name):
        raise problem(file, number, f"'{name}' is not an image. Give the path of an image.")


def normal(path: Path) -> str:
    """The path from the root, without ``..``, and without following links."""
    return os.path.normpath(os.path.abspath(path))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


def shortened(text: str) -> str:
    """A cell as it is shown."""
    return text if len(text) <= 100 else f"{text[:100]}..."
