"""Images on disk: in folders, in lists of paths and classes, or in tar files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from residapt.data.folders import (
    LabelledFiles,
    UnlabelledFiles,
    check_names,
    scan_labelled,
    scan_source,
    scan_target,
)
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
from residapt.data.listed import is_list, read_list, root_of
from residapt.data.shards import read_shards, shards_in
from residapt.errors import DataError


def find_source(place: Path) -> LabelledFiles:
    """The labelled source: a folder with a folder for each class, a list (CSV, Parquet), or tar files."""
    if (found := _elsewhere(place)) is not None:
        names = [found.classes[number] for number in found.class_numbers]
        if len(found.classes) == 1:
            raise DataError(f"'{place}' has 1 class only ('{names[0]}'); there is nothing to tell apart.")
        check_names(place, found.classes)
        return found
    if not place.is_file():
        return scan_source(place)
    _refuse_other_files(place)
    names = sorted({name.strip() for _, _, name in read_rows(place)})
    if len(names) == 1:
        raise DataError(f"label file '{place}' has 1 class only ('{names[0]}'); there is nothing to tell apart.")
    return _listed_files(place, check_names(place, names))


def find_labelled(place: Path, classes: Sequence[str]) -> LabelledFiles:
    """Labelled images to score, in folders, lists or tar files; their classes are among those of the source."""
    if (found := _elsewhere(place)) is not None:
        unknown = [name for name in found.classes if name not in classes]
        if unknown:
            raise DataError(
                f"'{place}': class '{unknown[0]}' is not a class of the source, which has {', '.join(classes[:8])}."
            )
        numbers = tuple(classes.index(found.classes[number]) for number in found.class_numbers)
        return replace(found, classes=tuple(classes), class_numbers=numbers)
    if not place.is_file():
        return scan_labelled(place, classes)
    _refuse_other_files(place)
    return _listed_files(place, tuple(classes))


def find_target(place: Path) -> UnlabelledFiles:
    """The unlabelled target: a folder, a list (CSV, Parquet), or tar files; classes that are there are not read."""
    if is_list(place):
        paths, _ = read_list(place, labelled=False)
        return UnlabelledFiles(root_of(place, paths), paths)
    if files := shards_in(place):
        return UnlabelledFiles(place, (), read_shards(files, labelled=False)[0])
    return UnlabelledFiles(place, scan_target(place))


def _elsewhere(place: Path) -> LabelledFiles | None:
    """Labelled images in a Parquet file or in tar files."""
    if place.suffix.lower() == ".parquet" and not place.is_dir():
        paths, classes = read_list(place, labelled=True)
        return LabelledFiles(root_of(place, paths), ordered(classes), paths, _numbers(classes))
    if files := shards_in(place):
        shards, names = read_shards(files, labelled=True)
        return LabelledFiles(place, ordered(names), (), _numbers(names), shards=shards)
    return None


def _numbers(names: Sequence[str]) -> tuple[int, ...]:
    known = {name: number for number, name in enumerate(ordered(names))}
    return tuple(known[name] for name in names)


def ordered(names: Sequence[str]) -> tuple[str, ...]:
    """Class names in order: as numbers where all of them are."""
    found = set(names)
    return tuple(sorted(found, key=int) if all(name.isdecimal() for name in found) else sorted(found))


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
            f"'{file}' is neither a folder nor a list of images. Give a folder with one folder of images for each "
            "class, a file NAME.csv with a line for each image (path,class), a Parquet file or tar files."
        )
