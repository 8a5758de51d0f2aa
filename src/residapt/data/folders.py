"""Folders of photographs: scanned and checked before anything is trained or written."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import torch
from torch import Tensor

from residapt.data.decode import is_image_name, list_images
from residapt.data.decoded import CacheConfig, Encoded, Files, Pixels
from residapt.errors import DataError
from residapt.models.input_spec import InputSpec

_SPLITS = frozenset({"train", "training", "val", "valid", "validation", "test", "testing"})


@dataclass(frozen=True, eq=False)
class ClassFolders:
    """Labelled images as found on disk: mostly a folder with one folder for each class."""

    root: Path
    classes: tuple[str, ...]
    paths: tuple[Path, ...]
    labels: Tensor
    notes: tuple[str, ...] = ()
    encoded: Encoded | None = None
    """The images, where they are not files in class folders."""


def scan_source(root: Path) -> ClassFolders:
    """The labelled source: at least two classes, none of them empty, names that differ in more than case."""
    found, loose = _scan(root)
    empty = [name for name, paths in found.items() if not paths]
    if empty:
        more = f" (and {len(empty) - 1} more)" if len(empty) > 1 else ""
        raise DataError(
            f"class folder '{root / empty[0]}'{more} has no images. Put images of the class into it, or remove it."
        )
    if len(found) < 2:
        raise DataError(_too_few_classes(root, list(found), loose))
    _refuse_splits(root, list(found))
    classes = _checked_names(root, found)
    notes = (f"{len(loose)} images directly in '{root}' belong to no class and are left out.",) if loose else ()
    return _labelled(root, found, classes, notes)


def scan_labelled(root: Path, classes: Sequence[str]) -> ClassFolders:
    """A labelled folder to score, whose folders are among ``classes``; classes may be missing."""
    found, _ = _scan(root)
    unknown = [name for name in found if name not in classes]
    if unknown:
        near = next((c for c in classes if _folded(c) == _folded(unknown[0])), None)
        hint = f"rename it to '{near}'" if near else f"the source has the classes {', '.join(classes[:8])}"
        raise DataError(f"class folder '{root / unknown[0]}' is not a class of the source: {hint}.")
    if not any(found.values()):
        raise DataError(
            f"folder '{root}' has no images in class folders, so it cannot be scored. Give one folder for each class."
        )
    return _labelled(root, found, tuple(classes), ())


def scan_target(root: Path) -> tuple[Path, ...]:
    """The unlabelled target: every image at any depth; the names of folders mean nothing."""
    paths = tuple(list_images(root))
    if not paths:
        raise DataError(
            f"target folder '{root}' has no images at any depth. Give a folder with .jpg, .png or other image files."
        )
    return paths


def _scan(root: Path) -> tuple[dict[str, list[Path]], list[str]]:
    """Images of every class folder, sorted by name, and the names of images that lie in none."""
    paths = list_images(root)
    entries = sorted(entry for entry in root.iterdir() if not entry.name.startswith("."))
    found: dict[str, list[Path]] = {e.name: [] for e in entries if e.is_dir() and e.name != "__MACOSX"}
    for name, group in groupby(paths, key=lambda path: path.relative_to(root).parts[0]):
        if name in found:
            found[name] = list(group)
    return found, [entry.name for entry in entries if entry.is_file() and is_image_name(entry.name)]


def _labelled(
    root: Path, found: dict[str, list[Path]], classes: tuple[str, ...], notes: tuple[str, ...]
) -> ClassFolders:
    pairs = [(path, classes.index(name)) for name, paths in found.items() for path in paths]
    labels = torch.tensor([label for _, label in pairs], dtype=torch.long)
    return ClassFolders(root, classes, tuple(path for path, _ in pairs), labels, notes)


def _too_few_classes(root: Path, names: list[str], loose: list[str]) -> str:
    if not names:
        what = f"{len(loose)} images but no class folders" if loose else "no class folders"
        return f"source folder '{root}' has {what}. Put the images of each class into a folder that has its name."
    below, _ = _scan(root / names[0])
    hint = f"Did you mean '{root / names[0]}'?" if len(below) > 1 else "Add a folder for each further class."
    return f"source folder '{root}' has 1 class only ('{names[0]}'); there is nothing to tell apart. {hint}"


def _refuse_splits(root: Path, names: list[str]) -> None:
    """``train/`` and ``test/`` with the same folders inside are parts of a data set, not classes."""
    if not all(name.lower() in _SPLITS for name in names):
        return
    inside = [{entry.name for entry in (root / name).iterdir() if entry.is_dir()} for name in names]
    if all(folders and folders == inside[0] for folders in inside):
        raise DataError(
            f"source folder '{root}' holds the parts of a data set ({', '.join(names)}), not classes. "
            f"Give one part, such as '{root / names[0]}'."
        )


def _checked_names(root: Path, names: Iterable[str]) -> tuple[str, ...]:
    """The names, rejected if two look alike: on some systems they would be one folder."""
    seen: dict[str, str] = {}
    for name in names:
        first = seen.setdefault(_folded(name), name)
        if first != name:
            raise DataError(
                f"source folder '{root}' has the classes '{first}' and '{name}', which differ only in case. "
                "Join or rename them."
            )
    return tuple(seen.values())


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


@dataclass(frozen=True, eq=False)
class Decoded:
    """Files that could be read: which of the given ones, and their pixels unless they were too many."""

    kept: Tensor
    """Indices into the given paths."""
    paths: tuple[Path, ...]
    """The paths that could be read."""
    pixels: Tensor
    """uint8 (n, channels, size, size)."""
    notes: tuple[str, ...] = ()
    """What was left out."""


def decode_all(paths: Sequence[Path], form: InputSpec, *, what: str) -> Decoded:
    """Decode every file into memory; unreadable ones are named and left out, and rejected when more than half."""
    pixels = Pixels(Files(tuple(paths), Path()), form, what=what, cache=CacheConfig(bytes=0))
    kept, rows = pixels.read_all()
    return Decoded(kept, tuple(paths[i] for i in kept.tolist()), rows, pixels.left_out())
