"""Pairs of digits: real ones, printed ones, and MNIST's rendered anew."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from residapt_bench.proving_ground.library import (
    handwritten_digits,
    printed_digits,
    read_mnist,
    read_svhn,
    read_usps,
    scan_source,
)
from residapt_bench.proving_ground.pair import Place, Rendered, Samples, as_tensor, random_numbers
from residapt_bench.proving_ground.photographs import decoded
from residapt_bench.proving_ground.render import Pixels, Renderer, over_photographs, resized, to_channels
from residapt_bench.proving_ground.subsets import some

DIGITS = tuple("0123456789")
SOURCE, TARGET, TEST = 15_000, 10_000, 5_000
"""Digits of each part, or all that there are."""
_READERS = {"svhn": read_svhn, "mnist": read_mnist, "usps": read_usps}
_PHOTOGRAPHS = ("dslr", "webcam")


@lru_cache(maxsize=6)
def read(root: Path, name: str, split: str) -> Samples:
    """A published set."""
    found = _READERS[name](root, split)
    return Samples(found.images, found.labels)


def brought_to(samples: Samples, channels: int, size: int) -> Samples:
    """Digits in grey or colour and of the size that a network reads."""
    return Samples(as_tensor(resized(to_channels(samples.images.numpy(), channels), size)), samples.labels)


def real_digits(
    place: Place, seed: int, *, source: str, target: str, channels: int, size: int, all_images: bool = False
) -> Rendered:
    """Training images of one set as source, those of another as target, whose test images are scored.

    As many as ``SOURCE``, ``TARGET`` and ``TEST`` say, or all that the sets have.
    """

    def part(name: str, split: str, count: int, role: str) -> Samples:
        whole = read(place.root, name, split)
        if all_images:
            return brought_to(whole, channels, size)
        chosen = some(len(whole), count, random_numbers("digits", role, name, split, seed))
        return brought_to(whole.take(chosen), channels, size)

    return Rendered(
        source=part(source, "train", SOURCE, "source"),
        target=part(target, "train", TARGET, "target"),
        test=part(target, "test", TEST, "test"),
        classes=DIGITS,
    )


def printed(seed: int, count: int, size: int = 28) -> Samples:
    """Digits that the program prints in 19 fonts."""
    made = printed_digits(count, size=size, seed=seed)
    return Samples(made.images, made.labels)


def printed_to_handwritten(place: Place, seed: int) -> Rendered:
    """Printed digits, and the 1,797 handwritten ones that come with scikit-learn."""
    small = handwritten_digits(size=8)
    target = brought_to(Samples(small.images, small.labels), 1, 28)
    return Rendered(source=printed(seed, SOURCE), target=target, classes=DIGITS)


def printed_to_real(place: Place, seed: int, *, target: str) -> Rendered:
    """Printed digits, and those of a published set."""
    pair = real_digits(place, seed, source=target, target=target, channels=1, size=28)
    return Rendered(source=printed(seed, SOURCE), target=pair.target, test=pair.test, classes=DIGITS)


def rendered_digits(place: Place, seed: int, *, render: Renderer, channels: int) -> Rendered:
    """MNIST's digits as they are, and others of MNIST's digits rendered; no digit is in both."""
    train, test = read(place.root, "mnist", "train"), read(place.root, "mnist", "test")
    order = torch.from_numpy(random_numbers("rendered digits", seed).permutation(len(train)))
    scored = some(len(test), TEST, random_numbers("rendered digits test", seed))

    def drawn(samples: Samples, role: str) -> Samples:
        pixels = render(samples.images.numpy(), random_numbers(role, seed))
        return Samples(as_tensor(to_channels(pixels, channels)), samples.labels)

    return Rendered(
        source=brought_to(train.take(order[:SOURCE]), channels, 28),
        target=drawn(train.take(order[SOURCE : SOURCE + TARGET]), "rendered target"),
        test=drawn(test.take(scored), "rendered test"),
        classes=DIGITS,
    )


def digits_over_clutter(place: Place, seed: int, *, contrast: float, brighter: float) -> Rendered:
    """MNIST's digits as they are (in three equal channels), and others as ink over cut-outs of photographs."""

    def render(digits: Pixels, rng: np.random.Generator) -> Pixels:
        return over_photographs(
            digits, cut_outs(place.root, len(digits), rng), rng, contrast=contrast, brighter=brighter
        )

    return rendered_digits(place, seed, render=render, channels=3)


def cut_outs(root: Path, count: int, rng: np.random.Generator, *, size: int = 28) -> Pixels:
    """Square parts of photographs taken in offices, 24 to 128 of their 256 pixels wide."""
    photographs = _photographs(root)
    which = rng.integers(0, len(photographs), count)
    sides = rng.integers(24, 129, count)
    places = rng.random((count, 2))
    out = np.empty((count, 3, size, size), np.uint8)
    for number, (photograph, side) in enumerate(zip(which, sides, strict=True)):
        y, x = (places[number] * (photographs.shape[-1] - side + 1)).astype(np.int64)
        out[number] = resized(photographs[photograph, None, :, y : y + side, x : x + side], size)[0]
    return out


@lru_cache(maxsize=1)
def _photographs(root: Path) -> Pixels:
    return np.concatenate(
        [decoded(scan_source(root / "office31" / name / "images").paths, 256) for name in _PHOTOGRAPHS]
    )
