"""Labelled images on disk, as class folders or as a CSV file of paths and classes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from residapt.data.folders import LabelledFiles, check_names, scan_labelled, scan_source
from residapt.data.labels_csv import (
    LabelLine,
    class_number,
    each_once,
    normal,
    places_of,
    problem,
    read_label_file,
    read_rows,
    refuse_no_image,
    shortened,
)
from residapt.errors import DataError


def find_source(place: Path) -> LabelledFiles:
    """The labelled source: a folder with a folder for each class, or a CSV file (path,class)."""
    if not place.is_file():
        return scan_source(place)
    _refuse_other_files(place)
    names = sorted({name.strip() for _, _, name in read_rows(place)})
    if len(names) == 1:
        raise DataError(f"label file '{place}' has 1 class only ('{names[0]}'); there is nothing to tell apart.")
    return _listed_files(place, check_names(place, names))


def find_labelled(place: Path, classes: Sequence[str]) -> LabelledFiles:
    """Labelled images to score, in folders or listed in a CSV file; their classes are among those of the source."""
    if not place.is_file():
        return scan_labelled(place, classes)
    _refuse_other_files(place)
    return _listed_files(place, tuple(classes))


def check_labels(data: Any, target: Any, classes: Sequence[str]) -> None:
    """Reject a list, or class folders, of labelled target images that cannot be used."""
    if isinstance(data, (str, Path)):
        if Path(data).is_dir():
            scan_labelled(Path(data), classes)
        else:
            read_label_file(Path(data), target_folder(data, target), classes)


def target_folder(data: Any, target: Any) -> Path:
    """The folder whose images a list of labels names."""
    if not isinstance(target, (str, Path)):
        raise DataError(
            f"target_labels '{data}' names files of a target folder, but the target is {type(target).__name__}. "
            "Give (images, labels), or class folders."
        )
    return Path(target)


def _listed_files(file: Path, classes: tuple[str, ...]) -> LabelledFiles:
    """In the order that class folders would have."""
    lines = sorted(each_once(file, _lines(file, classes), classes), key=lambda line: (line.label, line.path.parts))
    paths, labels = tuple(line.path for line in lines), tuple(line.label for line in lines)
    return LabelledFiles(file.parent, classes, paths, labels)


def _lines(file: Path, classes: tuple[str, ...]) -> Iterator[LabelLine]:
    for number, cell, name in read_rows(file):
        found = next((place for place in places_of(cell, file.parent) if os.path.exists(place)), None)
        if found is None:
            what = f"image '{shortened(cell)}' does not exist. Write its path from the folder of this file."
            raise problem(file, number, what)
        refuse_no_image(file, number, found, shortened(cell))
        yield LabelLine(number, Path(normal(found)), class_number(file, number, name, classes))


def _refuse_other_files(file: Path) -> None:
    if file.suffix.lower() not in (".csv", ".txt"):
        raise DataError(
            f"'{file}' is neither a folder nor a CSV file. Give a folder with one folder of images for each class, or "
            "a file NAME.csv with a line for each image: path,class."
        )
