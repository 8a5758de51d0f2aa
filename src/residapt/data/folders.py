"""Folders of photographs: scanned and checked before anything is trained or written, and before torch is loaded."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from residapt.data.image_files import is_image_name, list_images
from residapt.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

    from residapt.data.shards import Shards

_SPLITS = frozenset({"train", "training", "val", "valid", "validation", "test", "testing"})


@dataclass(frozen=True)
class LabelledFiles:
    """Images with classes as found on disk: in a folder for each class, or in a list."""

    root: Path
    classes: tuple[str, ...]
    paths: tuple[Path, ...]
    class_numbers: tuple[int, ...]
    """Index of each image's class."""
    notes: tuple[str, ...] = ()
    shards: Shards | None = None
    """The images in tar files, where ``paths`` is empty."""

    @property
    def labels(self) -> Tensor:
        """The indices of the classes as a tensor."""
        import torch  # only here: scanning needs no torch

        return torch.tensor(self.class_numbers, dtype=torch.long)


@dataclass(frozen=True)
class UnlabelledFiles:
    """Images without classes as found on disk."""

    root: Path
    paths: tuple[Path, ...]
    shards: Shards | None = None
    """The images in tar files, where ``paths`` is empty."""


def scan_source(root: Path) -> LabelledFiles:
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
    classes = check_names(root, found)
    notes = (f"{len(loose)} images directly in '{root}' belong to no class and are left out.",) if loose else ()
    return _labelled(root, found, classes, notes)


def scan_labelled(root: Path, classes: Sequence[str]) -> LabelledFiles:
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
    paths, depth = list_images(root), len(root.parts)
    entries = sorted(entry for entry in root.iterdir() if not entry.name.startswith("."))
    found: dict[str, list[Path]] = {e.name: [] for e in entries if e.is_dir() and e.name != "__MACOSX"}
    for name, group in groupby(paths, key=lambda path: path.parts[depth]):
        if name in found:
            found[name] = list(group)
    return found, [entry.name for entry in entries if entry.is_file() and is_image_name(entry.name)]


def _labelled(
    root: Path, found: dict[str, list[Path]], classes: tuple[str, ...], notes: tuple[str, ...]
) -> LabelledFiles:
    paths = tuple(path for images in found.values() for path in images)
    numbers = tuple(classes.index(name) for name, images in found.items() for _ in images)
    return LabelledFiles(root, classes, paths, numbers, notes)


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


def check_names(root: Path, names: Iterable[str]) -> tuple[str, ...]:
    """The names, rejected if two look alike: on some systems they would be one folder."""
    seen: dict[str, str] = {}
    for name in names:
        first = seen.setdefault(_folded(name), name)
        if first != name:
            raise DataError(
                f"source '{root}' has the classes '{first}' and '{name}', which differ only in case. "
                "Join or rename them."
            )
    return tuple(seen.values())


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
