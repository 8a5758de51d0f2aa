"""Damaged versions of a file: flipped bits, cut, doubled or inserted bytes, and JSON with other values in it."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from typing import Any

ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**53, 2**63, 10**30, -(10**18), 0.5, 1e308, "", "x", "../../x", "\x00", "nan",
    "os:system", [], [0], [2**62, 2**62], [[[]]], {}, {"a": 1}, [-1, -1], "float64", "residapt",
)  # fmt: skip
"""Values that somebody could put where another is expected."""


def flip(blob: bytes, draw: random.Random) -> bytes:
    """Some bits, mostly in the first bytes, where headers are."""
    changed = bytearray(blob)
    for _ in range(draw.choice((1, 1, 2, 8))):
        place = draw.randrange(min(len(changed), draw.choice((16, 600, len(changed)))))
        changed[place] ^= 1 << draw.randrange(8)
    return bytes(changed)


def cut(blob: bytes, draw: random.Random) -> bytes:
    """The beginning only."""
    return blob[: draw.randrange(len(blob))]


def insert(blob: bytes, draw: random.Random) -> bytes:
    """Bytes of noise, or of the file itself, somewhere inside."""
    place, start = draw.randrange(len(blob) + 1), draw.randrange(len(blob))
    piece = draw.randbytes(draw.randrange(1, 40)) if draw.random() < 0.5 else blob[start : start + 30]
    return blob[:place] + piece + blob[place:]


def change_json(blob: bytes, draw: random.Random) -> bytes:
    """One value replaced by an odd one, taken away, or put under another name."""
    values = json.loads(blob)
    _change(values, draw)
    return json.dumps(values).encode()


def change_header(blob: bytes, draw: random.Random) -> bytes:
    """The same in the header of a safetensors file, or another length of it."""
    (length,) = struct.unpack("<Q", blob[:8])
    if draw.random() < 0.1:
        return struct.pack("<Q", draw.choice((0, length - 1, length + 1, 2**31, 2**63, 2**64 - 1))) + blob[8:]
    header = change_json(blob[8 : 8 + length], draw)
    return struct.pack("<Q", len(header)) + header + blob[8 + length :]


def _change(values: Any, draw: random.Random) -> None:
    """Go down a random way and change what is there."""
    while True:
        key = draw.choice(list(values) if isinstance(values, dict) else range(len(values)))
        inner = values[key]
        if not isinstance(inner, (dict, list)) or not inner or draw.random() < 0.15:
            break
        values = inner
    kind = draw.random()
    if kind < 0.75:
        values[key] = draw.choice(ODD)
    elif kind < 0.9 or not isinstance(values, dict):
        del values[key]
    else:
        values[str(draw.choice(ODD))] = values.pop(key)


Mutation = Callable[[bytes, random.Random], bytes]
BYTES: tuple[Mutation, ...] = (flip, cut, insert)
"""For any file."""
