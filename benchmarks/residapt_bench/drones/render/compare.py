"""Drawn and photographed drones compared: by numbers, and side by side on one sheet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from residapt.errors import DataError

Pixels = NDArray[np.uint8]
QUARTILES = (25, 50, 75)
STEP = 25.0
"""Grey levels from the background at which a pixel counts as part of something."""


def patch_numbers(patches: Pixels) -> dict[str, NDArray[np.float64]]:
    """Of every patch (n, h, w): brightness, contrast, clutter behind, size of the object and how it stands out.

    The background is the median of the border, two pixels wide; the object is what differs from it by 25 levels.
    """
    values = patches.astype(np.float64)
    inside = np.zeros(values.shape[1:], bool)
    inside[2:-2, 2:-2] = True
    border = values[:, ~inside]
    behind = np.median(border, axis=1)
    away = np.abs(values - behind[:, None, None])
    differs = away > STEP
    count = differs.sum(axis=(1, 2))
    rows, columns = differs.any(axis=2), differs.any(axis=1)
    return {
        "brightness": values.mean(axis=(1, 2)),
        "contrast (std)": values.std(axis=(1, 2)),
        "background": behind,
        "clutter of the border (std)": border.std(axis=1),
        "share of the patch that differs": differs.mean(axis=(1, 2)),
        "height of what differs": rows.mean(axis=1),
        "width of what differs": columns.mean(axis=1),
        "difference of what differs": (away * differs).sum(axis=(1, 2)) / np.maximum(count, 1),
        "sharpness (mean step)": np.abs(np.diff(values, axis=2)).mean(axis=(1, 2)),
    }


def comparison(sets: Mapping[str, Pixels]) -> list[tuple[str, ...]]:
    """Rows of a table: the name of a number, then its quartiles in each set."""
    found = {name: patch_numbers(patches) for name, patches in sets.items()}
    names = next(iter(found.values()))
    rows = [("number", *found)]
    for name in names:
        cells = [" / ".join(f"{q:.3g}" for q in np.percentile(one[name], QUARTILES)) for one in found.values()]
        rows.append((name, *cells))
    return rows


def contact_sheet(sets: Mapping[str, Pixels], path: Path, *, across: int = 12, down: int = 8, zoom: int = 2) -> None:
    """A PNG with the first patches of every set in a block of its own, side by side."""
    if path.suffix.lower() != ".png":
        raise DataError(f"the contact sheet is a PNG file; '{path}' does not end in .png.")
    side = zoom * next(iter(sets.values())).shape[1]
    width, title = across * side, 16
    sheet = Image.new("L", (len(sets) * (width + 8) - 8, title + down * side), 255)
    for block, (name, patches) in enumerate(sets.items()):
        left = block * (width + 8)
        ImageDraw.Draw(sheet).text((left + 4, 2), name, fill=0)
        for i, patch in enumerate(patches[: across * down]):
            image = Image.fromarray(patch).resize((side, side), Image.Resampling.NEAREST)
            sheet.paste(image, (left + i % across * side, title + i // across * side))
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path)
