"""Small folders of made-up photographs in the stand-in's layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def pattern(number: int) -> Image.Image:
    """Smooth random structure, another one for every number."""
    rng = np.random.default_rng(number)
    coarse = Image.fromarray(rng.integers(0, 256, (7, 7), dtype=np.uint8))
    return coarse.resize((128, 128), Image.Resampling.BICUBIC)


def write_photographs(
    root: Path, *, first: tuple[int, int] = (24, 24), second: tuple[int, int] = (5, 5), twins: int = 4
) -> Path:
    """``dronebird`` below root; the last ``twins`` drones of ``first`` are mirror images of the first ones."""
    counts = {"first": first, "second": second}
    number = 0
    for collection, (drones, birds) in counts.items():
        for kind, count in (("drone", drones), ("bird", birds)):
            folder = root / "dronebird" / collection / kind
            folder.mkdir(parents=True)
            for place in range(count):
                twin = collection == "first" and kind == "drone" and place >= count - twins
                image = pattern(place - (count - twins)) if twin else pattern(number)
                image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if twin else image
                image.save(folder / f"{place:03d}.png")
                number += 1
    return root
