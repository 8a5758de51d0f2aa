"""Which of some images are among others: files by place or content, images in memory by their pixels."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from residapt.data.domains import Images


def also_among(paths: Sequence[Path], others: Sequence[Path]) -> int:
    """How many of ``paths`` are the same file as one of ``others``, or a copy of it."""
    places = {path.resolve() for path in others}
    rest = [path for path in paths if path.resolve() not in places]
    # Only files of equal size can be equal, so that hardly any large file has to be read.
    sizes = {path.stat().st_size for path in rest}
    contents = {_digest(path) for path in others if path.stat().st_size in sizes}
    return len(paths) - len(rest) + sum(_digest(path) in contents for path in rest)


def _digest(path: Path) -> bytes:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.digest()


def common_images(images: Images, others: Images) -> int:
    """How many of ``images`` are, pixel by pixel, among ``others``."""
    seen = set(_digests(others))
    return sum(digest in seen for digest in _digests(images))


def _digests(images: Images) -> Iterator[bytes]:
    generator = torch.Generator().manual_seed(0)
    for index in torch.split(torch.arange(len(images)), 256):
        for image in images.fetch(index, generator):
            yield hashlib.sha256(image.contiguous().numpy().tobytes()).digest()
