"""What a path means as source or target: a folder, a list of images (CSV, Parquet), or tar files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from residapt.data import folders
from residapt.data.decoded import Encoded, Files
from residapt.data.folders import ClassFolders
from residapt.data.listed import is_list, ordered, read_list, root_of
from residapt.data.shards import read_shards, shards_in
from residapt.errors import DataError


def scan_source(place: Path) -> ClassFolders:
    """The labelled source: at least two classes."""
    found = _elsewhere(place)
    if found is None:
        return folders.scan_source(place)
    encoded, names = found
    classes = ordered(names)
    if len(classes) < 2:
        raise DataError(f"source '{place}' has 1 class only ('{classes[0]}'); there is nothing to tell apart.")
    return _labelled(place, encoded, names, classes)


def scan_labelled(place: Path, classes: Sequence[str]) -> ClassFolders:
    """Labelled images to score, whose classes are among ``classes``."""
    found = _elsewhere(place)
    if found is None:
        return folders.scan_labelled(place, classes)
    encoded, names = found
    unknown = sorted(set(names) - set(classes))
    if unknown:
        raise DataError(
            f"'{place}': class '{unknown[0]}' is not a class of the source, which has {', '.join(classes[:8])}."
        )
    return _labelled(place, encoded, names, tuple(classes))


def scan_target(place: Path) -> Encoded:
    """The unlabelled target; classes in a list, beside images or in names of folders are not read."""
    if is_list(place):
        paths, _ = read_list(place, labelled=False)
        return Files(paths, root_of(place, paths))
    if shards := _shards(place):
        return read_shards(shards, labelled=False)[0]
    return Files(folders.scan_target(place), place)


def _elsewhere(place: Path) -> tuple[Encoded, Sequence[str]] | None:
    """Labelled images that are in no class folders, and their class names."""
    if is_list(place):
        paths, names = read_list(place, labelled=True)
        return Files(paths, root_of(place, paths)), names
    if shards := _shards(place):
        return read_shards(shards, labelled=True)
    return None


def _shards(place: Path) -> tuple[Path, ...]:
    """The tar files of a place, unless it is a folder that has other folders or images as well."""
    found = shards_in(place)
    if place.is_dir() and found and any(entry.is_dir() for entry in place.iterdir()):
        return ()
    return found


def _labelled(place: Path, encoded: Encoded, names: Sequence[str], classes: tuple[str, ...]) -> ClassFolders:
    numbers = {name: number for number, name in enumerate(classes)}
    labels = torch.tensor([numbers[name] for name in names], dtype=torch.long)
    return ClassFolders(place, classes, encoded.files, labels, encoded=encoded)
