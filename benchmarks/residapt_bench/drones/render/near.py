"""Near-duplicate photographs: frames of one film, mirrored, turned or brightened copies.

Two photographs are taken for near-duplicates when, for one of the eight symmetries of the square, their gradient hashes
(signs of the differences of neighbouring cells, across and down) almost agree, or roughly agree while their thumbnails
are alike, or the thumbnails are the same. The last catches plain skies, whose gradients are noise. Too many pairs do
no harm: a group stays on one side of a split, that is all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

THUMB = 18
"""Side of a thumbnail in pixels; the hash is of its 9x9 means of 2x2 pixels."""
ALMOST, ROUGHLY = 10, 28
"""Differing bits, of 144, up to which the hashes almost or roughly agree."""
ALIKE, SAME = 18.0, 6.0
"""Root mean square difference of two thumbnails in grey levels."""

Floats = NDArray[np.float32]


def thumbnail(image: Image.Image) -> Floats:
    """The photograph in grey, 18x18."""
    return np.asarray(image.convert("L").resize((THUMB, THUMB), Image.Resampling.BOX), np.float32)


def gradient_bits(thumbnails: Floats) -> Floats:
    """Signs (1 or -1) of the differences between neighbouring cells, shape (n, 144)."""
    cells = thumbnails.reshape(-1, THUMB // 2, 2, THUMB // 2, 2).mean(axis=(2, 4))
    across, down = cells[:, :, 1:] > cells[:, :, :-1], cells[:, 1:] > cells[:, :-1]
    bits = np.concatenate([across.reshape(len(cells), -1), down.reshape(len(cells), -1)], axis=1)
    return np.where(bits, 1.0, -1.0).astype(np.float32)


def near_pairs(thumbnails: Floats) -> NDArray[np.int64]:
    """Pairs (i, j), i < j, of near-duplicates, shape (pairs, 2)."""
    bits, flat = gradient_bits(thumbnails), thumbnails.reshape(len(thumbnails), -1)
    near = np.zeros((len(flat), len(flat)), bool)
    for other in _symmetries(thumbnails):
        differing = (bits.shape[1] - bits @ gradient_bits(other).T) / 2
        apart = _distances(flat, other.reshape(len(other), -1))
        near |= (differing <= ALMOST) | ((differing <= ROUGHLY) & (apart <= ALIKE)) | (apart <= SAME)
    # A symmetry and its inverse are not the same map, so the relation is made symmetric here.
    pairs: NDArray[np.int64] = np.argwhere(np.triu(near | near.T, 1))
    return pairs


def groups_of(count: int, pairs: Sequence[Sequence[int]] | NDArray[np.int64]) -> list[list[int]]:
    """The connected groups of 0 .. count - 1, by union-find; each sorted, and sorted by their first members."""
    parent = list(range(count))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for i, j in pairs:
        low, high = sorted((root(int(i)), root(int(j))))
        parent[high] = low
    found: dict[int, list[int]] = {}
    for i in range(count):
        found.setdefault(root(i), []).append(i)
    return list(found.values())


def _symmetries(thumbnails: Floats) -> list[Floats]:
    turned = [np.rot90(thumbnails, quarter, (1, 2)) for quarter in range(4)]
    return [np.ascontiguousarray(image) for one in turned for image in (one, one[:, :, ::-1])]


def _distances(first: Floats, second: Floats) -> Floats:
    squares = (first**2).mean(axis=1)[:, None] + (second**2).mean(axis=1)[None]
    apart: Floats = np.sqrt(np.maximum(squares - 2 * first @ second.T / first.shape[1], 0))
    return apart
