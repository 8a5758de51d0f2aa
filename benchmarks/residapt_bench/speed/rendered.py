"""JPEG photographs of nothing, as many as wanted, for measurements of reading: class folders and a target folder."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

CLASSES = 10
PIXELS = 256
QUALITY = 85
_TOGETHER = 500
"""Images that a process renders at a time."""


def render_folders(folder: Path, count: int, jobs: int | None = None) -> tuple[Path, Path]:
    """A source folder with a folder for each class, and a target folder, of ``count`` images together.

    Images that are there already are kept, so that rendering can be interrupted.
    """
    source, target = folder / "source", folder / "target"
    for number in range(CLASSES):
        (source / f"class-{number}").mkdir(parents=True, exist_ok=True)
    target.mkdir(parents=True, exist_ok=True)
    parts = [range(start, min(start + _TOGETHER, count)) for start in range(0, count, _TOGETHER)]
    with ProcessPoolExecutor(jobs or os.cpu_count()) as pool:
        list(pool.map(_render_part, [folder] * len(parts), parts))
    return source, target


def _render_part(folder: Path, numbers: range) -> None:
    for number in numbers:
        path = _path(folder, number)
        if not path.exists():
            partial = path.with_suffix(".partial")
            render(number).save(partial, "JPEG", quality=QUALITY)
            os.replace(partial, path)


def _path(folder: Path, number: int) -> Path:
    """Every other image is of the source."""
    name = f"{number:07d}.jpg"
    return folder / "target" / name if number % 2 else folder / "source" / f"class-{_label(number)}" / name


def _label(number: int) -> int:
    return number // 2 % CLASSES


def render(number: int) -> Image.Image:
    """A blurred background with grain, and as many dots as the class has, on a tilted bar; the target is darker."""
    draw = np.random.default_rng(number)
    small = draw.integers(40, 216, (8, 8, 3), dtype=np.uint8)
    image = Image.fromarray(small).resize((PIXELS, PIXELS), Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(image)
    for place in range(_label(number) + 1):
        x, y = 20 + 22 * place + int(draw.integers(-4, 5)), int(draw.integers(80, 176))
        pen.ellipse((x - 9, y - 9, x + 9, y + 9), fill=tuple(int(value) for value in draw.integers(0, 256, 3)))
    grain = draw.integers(-12, 13, (PIXELS, PIXELS, 1), dtype=np.int16)
    dimmed = np.asarray(image, np.int16) * (3 if number % 2 else 4) // 4
    return Image.fromarray((dimmed + grain).clip(0, 255).astype(np.uint8))
