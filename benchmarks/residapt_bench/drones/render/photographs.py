"""Patches out of photographs: whole, or cut out at random places; the same pixels for the same seed and file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from residapt.data.batches import derived_seed
from residapt.data.decode import decode_image
from residapt_bench.drones.render.draw import SIDE

PATCH = 40
"""Side of a patch."""
SMALLEST = 48
"""Side of the smallest cut-out: never enlarged, so that sharpness does not tell crops from whole photographs."""

Pixels = NDArray[np.uint8]


def open_grey(path: Path) -> Image.Image:
    """A photograph in grey, 128x128."""
    return Image.fromarray(decode_image(path, size=SIDE, channels=1)[0].numpy())


def whole(image: Image.Image) -> Pixels:
    """The whole photograph as a patch."""
    return np.asarray(image.resize((PATCH, PATCH), Image.Resampling.BILINEAR), np.uint8)


def cut(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    """A square cut-out of random size and place."""
    side = int(rng.integers(SMALLEST, SIDE))
    left, top = (int(rng.integers(0, SIDE - side + 1)) for _ in range(2))
    return image.crop((left, top, left + side, top + side))


def plain_cut(image: Image.Image, rng: np.random.Generator, choices: int) -> Image.Image:
    """The plainest and brightest of some cut-outs: drones are photographed against the sky more often than birds."""
    cuts = [cut(image, rng) for _ in range(choices)]
    values = [np.asarray(one, np.float32) for one in cuts]
    return cuts[int(np.argmin([one.std() - 0.5 * one.mean() for one in values]))]


def patches_of(path: Path, crops: int, seed: int) -> list[Pixels]:
    """The whole photograph and ``crops`` cut-outs, which depend on seed and file name only."""
    image = open_grey(path)
    rng = np.random.default_rng(derived_seed(seed, "crops", path.parent.name, path.name))
    return [whole(image), *(whole(cut(image, rng)) for _ in range(crops))]
