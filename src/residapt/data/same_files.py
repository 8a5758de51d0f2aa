"""Which of some images are among others: files by place or content, images in memory by their pixels."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from residapt.data.domains import Images


@dataclass(frozen=True)
class Mark:
    """What tells a file from every other, wherever it lies."""

    size: int
    """In bytes; files of other sizes need not be read."""
    digest: str
    """SHA-256 of the content, in hexadecimal."""


def mark_of(path: Path) -> Mark:
    """The mark of a file."""
    return Mark(path.stat().st_size, _digest(path))


def which_among(paths: Sequence[Path], others: Sequence[Path]) -> list[bool]:
    """Of each of ``paths``, whether it is the same file as one of ``others``, or a copy of it."""
    found, about = [os.stat(path) for path in others], [os.stat(path) for path in paths]
    places = {(file.st_dev, file.st_ino) for file in found}
    same = [(file.st_dev, file.st_ino) in places for file in about]
    # Only files of equal size can be equal, so that hardly any large file has to be read.
    sizes = {file.st_size for file, known in zip(about, same, strict=True) if not known}
    marks = {mark_of(path) for path, file in zip(others, found, strict=True) if file.st_size in sizes}
    rest = iter(which_marked([path for path, known in zip(paths, same, strict=True) if not known], marks))
    return [known or next(rest) for known in same]


def which_marked(paths: Sequence[Path], marks: Collection[Mark]) -> list[bool]:
    """Of each of ``paths``, whether its content has one of the ``marks``."""
    sizes = {mark.size for mark in marks}
    return [path.stat().st_size in sizes and mark_of(path) in marks for path in paths]


def also_among(paths: Sequence[Path], others: Sequence[Path]) -> int:
    """How many of ``paths`` are the same file as one of ``others``, or a copy of it."""
    return sum(which_among(paths, others))


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def which_common(images: Images, others: Images) -> list[bool]:
    """Of each of ``images``, whether it is, pixel by pixel, among ``others``."""
    seen = set(pixel_digests(others))
    return [digest in seen for digest in pixel_digests(images)]


def pixel_digests(images: Images) -> Iterator[str]:
    """A digest of each image as it is fetched."""
    generator = torch.Generator().manual_seed(0)
    for index in torch.split(torch.arange(len(images)), 256):
        for image in images.fetch(index, generator):
            yield hashlib.sha256(image.contiguous().numpy().tobytes()).hexdigest()
