"""Pairs of photographs: Office-31's domains, and the halves of one of them, of which one is rendered."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from residapt_bench.proving_ground.library import DataError, decode_image, scan_source
from residapt_bench.proving_ground.pair import Place, Rendered, Samples, as_tensor, random_numbers
from residapt_bench.proving_ground.render import Pixels, Renderer
from residapt_bench.proving_ground.subsets import halves

CLASSES = 31


def office(place: Place, seed: int, *, source: str, target: str, size: int) -> Rendered:
    """Two domains of Office-31. The target's images are those that are scored, as it is usual with this set."""
    (first, classes), (second, _) = (domain(place.root, name, size) for name in (source, target))
    return Rendered(source=first, target=second, classes=classes)


def rendered_office(
    place: Place, seed: int, *, render: Renderer, size: int, name: str = "amazon", decode: int | None = None
) -> Rendered:
    """Half of a domain's images as they are, and the other half rendered; ``decode``: its size before rendering.

    Some pictures are there more than once, even in two classes. The first file of each is taken.
    """
    whole, classes = domain(place.root, name, size)
    single = first_of_each(whole.images)
    first, second = (single[half] for half in halves(whole.labels[single], random_numbers("halves", name, seed)))
    rest = whole.take(second) if decode is None else domain(place.root, name, decode, tuple(second.tolist()))[0]
    pixels = render(rest.images.numpy(), random_numbers("rendered office", seed))
    return Rendered(source=whole.take(first), target=Samples(as_tensor(pixels), rest.labels), classes=classes)


def first_of_each(images: Tensor) -> Tensor:
    """The numbers of the images without those that repeat an earlier one."""
    numbers: dict[bytes, int] = {}
    for number, image in enumerate(images.numpy()):
        numbers.setdefault(image.tobytes(), number)
    return torch.tensor(sorted(numbers.values()))


@lru_cache(maxsize=4)
def domain(root: Path, name: str, size: int, which: tuple[int, ...] | None = None) -> tuple[Samples, tuple[str, ...]]:
    """Images (all, or those with these numbers), labels and class names of a domain of Office-31."""
    folders = scan_source(root / "office31" / name / "images")
    if len(folders.classes) != CLASSES:
        raise DataError(f"'{folders.root}' has {len(folders.classes)} classes; Office-31 has {CLASSES}.")
    chosen = range(len(folders.paths)) if which is None else which
    pixels = decoded([folders.paths[i] for i in chosen], size)
    return Samples(as_tensor(pixels), folders.labels[list(chosen)]), folders.classes


def decoded(paths: Sequence[Path], size: int) -> Pixels:
    """Pictures of a square size, in colour."""
    out = np.empty((len(paths), 3, size, size), np.uint8)
    for number, path in enumerate(paths):
        out[number] = decode_image(path, size=size, channels=3).numpy()
    return out
