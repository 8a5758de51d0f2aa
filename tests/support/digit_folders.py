"""The demonstration's digits as folders of images, as a user would have them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from PIL import Image

from residapt.data.imageset import ImageSet
from residapt.data.synthetic import handwritten_digits, printed_digits

QUICK = ("--set", "pretrain.steps=20", "--set", "pretrain.allow_chance=true", "--steps", "20", "--device", "cpu")
"""Options for a run of a few seconds."""


class Run(NamedTuple):
    """A run of the command line."""

    path: Path
    code: int
    text: str


def write_images(images: ImageSet, folder: Path, *, classes: bool) -> Path:
    """One folder for each digit, or all in one."""
    for number, (image, label) in enumerate(zip(images.images, images.labels.tolist(), strict=True)):
        place = folder / f"digit {label}" if classes else folder / f"roll {number % 3}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[0].numpy()).save(place / f"{number:03d}.png")
    return folder


def digit_folders(root: Path) -> Path:
    """``printed`` (labelled), ``written`` (in folders that mean nothing) and ``scored`` (labelled)."""
    written = handwritten_digits()
    write_images(printed_digits(200), root / "printed", classes=True)
    write_images(written.subset(range(60)), root / "written", classes=False)
    write_images(written.subset(range(60, 120)), root / "scored", classes=True)
    return root
