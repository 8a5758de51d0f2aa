"""A sheet of pictures: some samples of each pair, source above target."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor

from residapt_bench.proving_ground.pair import ProvingPair, random_numbers
from residapt_bench.proving_ground.render import resized, to_channels
from residapt_bench.proving_ground.store import load

SIDE = 80
_TEXT = 150


def contact_sheet(names: Sequence[str], root: Path, cache: Path, *, columns: int = 12, seed: int = 0) -> Image.Image:
    """Random samples of each pair; in each column source and target show the same class where they can."""
    sheet = Image.new("RGB", (_TEXT + columns * SIDE, 2 * SIDE * len(names)), "white")
    for row, name in enumerate(names):
        sheet.paste(_strip(load(name, root, cache, seed), columns), (0, 2 * SIDE * row))
    return sheet


def _strip(pair: ProvingPair, columns: int) -> Image.Image:
    strip = Image.new("RGB", (_TEXT + columns * SIDE, 2 * SIDE), "white")
    draw = ImageDraw.Draw(strip)
    draw.line((0, 0, strip.width, 0), "black")
    draw.text((4, 8), f"{pair.name}\n{pair.kind}\n{pair.spec.network}\n\nsource\n\n\n\n\n\ntarget", "black")
    rng = random_numbers("sheet", pair.name)
    images, labels = pair.target_test
    for column, (label, place) in enumerate(_chosen(labels, columns, rng)):
        same = torch.nonzero(pair.source_labels == label).flatten()
        left = _TEXT + column * SIDE
        strip.paste(_thumbnail(pair.source_images[same[int(rng.integers(len(same)))]], pair), (left, 2))
        strip.paste(_thumbnail(images[place], pair), (left, SIDE))
    return strip


def _chosen(labels: Tensor, columns: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Class and place of one sample for each column, going through the classes in turn."""
    present = sorted(set(labels.tolist()))
    every = max(1, len(present) // columns)
    wanted = [present[(every * column) % len(present)] for column in range(columns)]
    places = [torch.nonzero(labels == label).flatten() for label in wanted]
    return [(label, int(where[int(rng.integers(len(where)))])) for label, where in zip(wanted, places, strict=True)]


def _thumbnail(sample: Tensor, pair: ProvingPair) -> Image.Image:
    if pair.is_images:
        pixels = to_channels(sample[None].numpy(), 3)
        return Image.fromarray(resized(pixels, SIDE - 4)[0].transpose(1, 2, 0))
    return _curves(sample if sample.ndim == 2 else sample[None, :64])


def _curves(series: Tensor) -> Image.Image:
    """A series as lines, one colour for each channel; of features the first 64 as one line."""
    side = SIDE - 4
    picture = Image.new("RGB", (side, side), "#f4f4f4")
    draw = ImageDraw.Draw(picture)
    for values, colour in zip(series.tolist(), ("#c02020", "#2060c0", "#209040"), strict=False):
        step = side / len(values)
        draw.line([(k * step, side / 2 - value * side / 6) for k, value in enumerate(values)], colour)
    return picture
