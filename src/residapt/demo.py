"""The demonstration: printed digits (labelled) to real handwritten ones (unlabelled), with nothing to download.

It is an ordinary run of :func:`residapt.adapt` on two folders of images, which are written beside the run directory.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from rich.console import Console

from residapt.config import Config
from residapt.data.imageset import ImageSet
from residapt.data.synthetic import handwritten_digits, printed_digits
from residapt.errors import ConfigError
from residapt.run.api import AdaptedRun, run_request
from residapt.run.checks import check_output
from residapt.run.request import Request

SETTINGS: dict[str, Any] = {
    "model": {"spec": "lenet"},
    "pretrain": {"steps": 800},
    "train": {"steps": 600},
}
"""A run of a minute; everything else is as in any other run."""
PRINTED = 8000
"""Printed digits drawn."""


@dataclass(frozen=True)
class DigitFolders:
    """The images of the demonstration, in one folder for each class."""

    folder: Path

    @property
    def printed(self) -> Path:
        """The source: printed digits."""
        return self.folder / "printed"

    @property
    def handwritten(self) -> Path:
        """The target: a half of the handwritten digits. Their classes, the names of the folders, are not read."""
        return self.folder / "handwritten"

    @property
    def held_out(self) -> Path:
        """The other half, which only scores."""
        return self.folder / "held-out"


def images_beside(out: Path) -> DigitFolders:
    """Where the images of a demonstration are."""
    return DigitFolders(out.absolute().with_name(f"{out.absolute().name}-images"))


def run_demo(
    out: Path,
    *,
    seed: int = 0,
    console: Console | None = None,
    settings: dict[str, Any] | None = None,
    printed: int = PRINTED,
) -> AdaptedRun:
    """Write the images, and adapt from the printed to the handwritten digits.

    Args:
        out: The run directory.
        seed: Of everything, also of the printed digits.
        console: Where progress is shown.
        settings: In place of :data:`SETTINGS`.
        printed: Number of printed digits.
    """
    check_output(out)
    folders = images_beside(out)
    write_digits(folders, seed, printed)
    data = {"source": folders.printed, "target": folders.handwritten, "evaluate": folders.held_out}
    config = Config.parse({**(settings or SETTINGS), "seed": seed, "data": {k: str(v) for k, v in data.items()}})
    return run_request(Request(config=config, out=out, console=console or Console(quiet=True)))


def write_digits(folders: DigitFolders, seed: int, printed: int = PRINTED) -> None:
    """Draw the printed digits and split the handwritten ones in two halves, always the same."""
    written = handwritten_digits()
    order = torch.randperm(len(written), generator=torch.Generator().manual_seed(0))
    half = len(written) // 2
    try:
        _write(folders.printed, printed_digits(printed, seed=seed), range(printed))
        _write(folders.handwritten, written, order[:half].tolist())
        _write(folders.held_out, written, order[half:].tolist())
    except OSError as error:
        raise ConfigError(
            f"the digits cannot be written to '{folders.folder}': {error.strerror}. Choose another place with -o."
        ) from None


def command(out: Path, seed: int) -> str:
    """What a person types for the same run."""
    folders, train, pretrain = images_beside(out), SETTINGS["train"], SETTINGS["pretrain"]
    words = [
        *("residapt", "adapt", "-s", folders.printed, "-t", folders.handwritten, "--evaluate", folders.held_out),
        *("-m", SETTINGS["model"]["spec"], "--steps", train["steps"], "--set", f"pretrain.steps={pretrain['steps']}"),
        *("--seed", seed, "-o", out),
    ]
    return shlex.join(map(str, words))


def _write(folder: Path, images: ImageSet, chosen: Sequence[int]) -> None:
    """One PNG file for each image. Those of another seed have the same names, so that none of them stays."""
    counts: dict[int, int] = {}
    for index in chosen:
        label = int(images.labels[index])
        place = folder / str(label)
        if label not in counts:
            place.mkdir(parents=True, exist_ok=True)
        counts[label] = counts.get(label, -1) + 1
        Image.fromarray(images.images[index, 0].numpy()).save(place / f"{counts[label]:04}.png", compress_level=1)
