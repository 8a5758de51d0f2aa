"""Patches for detecting drones, and UAV-200 (Rozantsev et al. 2018) read from folders.

::

    DIR/train/synthetic/   drawn drones, the positives of the source
    DIR/train/real/        photographed drones, the labelled positives of the target (200)
    DIR/train/negative/    patches without drones, for both domains
    DIR/test/real/         photographed drones
    DIR/test/negative/     patches without drones

Each folder holds images of any size and depth of folders; they become grey patches of 40x40 pixels. The data set is not
public, so the folders' names are this library's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from residapt.data.decode import decode_image
from residapt.data.image_files import list_images
from residapt.errors import DataError

PATCH = 40
"""Side of a patch; the paper does not say, 40 is what the authors' other detectors read."""
FOLDERS = ("train/synthetic", "train/real", "train/negative", "test/real", "test/negative")


@dataclass(frozen=True, eq=False)
class ScoredSet:
    """Patches that are only scored."""

    name: str
    drones: Tensor
    negatives: Tensor


@dataclass(frozen=True, eq=False)
class DetectionData:
    """All patches of a detection task, uint8 of shape (n, 1, 40, 40)."""

    synthetic: Tensor
    """Drawn drones, the positives of the source."""
    source_negatives: Tensor
    """Patches without drones, the negatives of the source."""
    real: Tensor
    """Photographed drones that may be labelled for training."""
    negatives: Tensor
    """Patches without drones, the negatives of the target."""
    tests: tuple[ScoredSet, ...]
    """What is scored."""
    files: tuple[str, ...] = ()
    """What was read, for the record."""


def read_uav(root: Path, *, validation: bool = False, held: float = 0.25) -> DetectionData:
    """UAV-200 from its folders; for ``validation`` a share of the training patches takes the place of the test.

    Neighbours by name may be frames of one film, so the last ones are held out, not random ones.
    """
    home = _home(root)
    found = {name: list_images(home / name) for name in FOLDERS}
    for name, paths in found.items():
        if not paths:
            raise DataError(f"'{home / name}' has no images. Put the patches of UAV-200 there (docs/research/uav.md).")
    real, negatives = found["train/real"], found["train/negative"]
    test_real, test_negatives = found["test/real"], found["test/negative"]
    if validation:
        real, test_real = _held_out(real, held, home / "train/real")
        negatives, test_negatives = _held_out(negatives, held, home / "train/negative")
    shared = read_patches(negatives)
    name = "validation" if validation else "target_test"
    return DetectionData(
        synthetic=read_patches(found["train/synthetic"]),
        source_negatives=shared,
        real=read_patches(real),
        negatives=shared,
        tests=(ScoredSet(name, read_patches(test_real), read_patches(test_negatives)),),
        files=tuple(f"{folder}: {len(paths)} images, {names_digest(paths)}" for folder, paths in found.items()),
    )


def read_patches(paths: Sequence[Path], size: int = PATCH) -> Tensor:
    """Images as grey patches, (n, 1, size, size)."""
    patches = torch.empty(len(paths), 1, size, size, dtype=torch.uint8)
    for place, path in enumerate(paths):
        patches[place] = decode_image(path, size=size, channels=1)
    return patches


def names_digest(paths: Sequence[Path]) -> str:
    """A short digest of the files' names and sizes, to recognise the same files without reading them."""
    lines = "\n".join(f"{path.parent.name}/{path.name} {path.stat().st_size}" for path in paths)
    return hashlib.sha256(lines.encode()).hexdigest()[:12]


def as_patches(arrays: Sequence[np.ndarray]) -> Tensor:
    """Grey arrays as one tensor (n, 1, h, w)."""
    return torch.from_numpy(np.stack(arrays)).unsqueeze(1)


def _home(root: Path) -> Path:
    home = next((root / name for name in ("uav200", "UAV-200", "uav") if (root / name).is_dir()), root)
    missing = [name for name in FOLDERS if not (home / name).is_dir()]
    if missing:
        raise DataError(
            f"UAV-200 is not complete in '{home}': missing the folders {', '.join(missing)}. "
            "docs/research/uav.md says which patches belong where; without the data set, use "
            "'residapt bench run drone-standin'."
        )
    return home


def _held_out(paths: list[Path], held: float, where: Path) -> tuple[list[Path], list[Path]]:
    count = round(held * len(paths))
    if not 0 < count < len(paths):
        raise DataError(
            f"'{where}' has {len(paths)} images, of which {count} would be held out for validation: at least one must "
            "be on each side. Add images."
        )
    return paths[:-count], paths[-count:]
