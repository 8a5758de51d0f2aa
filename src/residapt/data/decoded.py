"""Encoded images as training fetches them: decoded when first needed, kept on disk, unreadable ones replaced."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import PIL
import torch
from numpy.typing import NDArray
from torch import Tensor

from residapt.data.cache_folder import SUFFIX, cache_folder
from residapt.data.decode import UnreadableImageError, decode_image
from residapt.data.domains import BatchTransform, Images, parts_of
from residapt.data.pixel_file import PixelFile
from residapt.errors import DataError
from residapt.models.input_spec import InputSpec

CHECKED = 256
"""A set of at most so many images is decoded before training."""
PROBED = 32
"""Images of a larger set that are decoded before training, to see whether they can be."""
LISTED = 5
"""Unreadable images that are named."""


class Encoded(Protocol):
    """Images as they are stored: files, parts of archives, rows of a table."""

    @property
    def place(self) -> str:
        """Where all of them are; sets of one place share a file of the cache."""
        ...

    def __len__(self) -> int:
        """How many there are."""
        ...

    @property
    def files(self) -> tuple[Path, ...]:
        """Where they are, if each is a file of its own."""
        ...

    def names(self) -> Sequence[str]:
        """What to call each of them; empty if they have only numbers."""
        ...

    def content(self, index: int) -> str:
        """What names an image and changes whenever it does, such as its name, size and time of change."""
        ...

    def decode(self, index: int, form: InputSpec) -> Tensor:
        """The image as uint8 (channels, size, size); raises UnreadableImageError."""
        ...


@dataclass(frozen=True)
class Files:
    """Image files."""

    files: tuple[Path, ...]
    root: Path

    @property
    def place(self) -> str:
        """The folder."""
        return str(self.root.absolute())

    def __len__(self) -> int:
        return len(self.files)

    def names(self) -> tuple[str, ...]:
        """Paths from the root."""
        start = os.path.join(self.root, "")
        # Names are compared before paths are taken apart, which takes ten times as long.
        names = (
            path[len(start) :] if path.startswith(start) else os.path.relpath(path, start)
            for path in map(os.fspath, self.files)
        )
        return tuple(name.replace(os.sep, "/") for name in names)

    def content(self, index: int) -> str:
        """Path, size and time of change."""
        path = self.files[index]
        try:
            about = os.stat(path)
        except OSError:
            return f"{path} gone"
        return f"{os.path.abspath(path)} {about.st_size} {about.st_mtime_ns}"

    def decode(self, index: int, form: InputSpec) -> Tensor:
        """The file's image."""
        return decode_image(self.files[index], size=form.size, channels=form.channels, interpolation=form.interpolation)


@dataclass(frozen=True)
class CacheConfig:
    """Where decoded images are kept, and how many."""

    bytes: float = 20e9
    """Of all files there; 0 keeps none."""
    folder: Path = field(default_factory=cache_folder)


class Pixels:
    """Decoded images by number, from the cache where they are there.

    An image that cannot be decoded is replaced by the next one that can, of the same group where there are groups
    (classes). So the order of samples does not depend on when a file was found broken.
    """

    def __init__(
        self, encoded: Encoded, form: InputSpec, *, what: str, cache: CacheConfig, groups: Tensor | None = None
    ) -> None:
        self.encoded, self.form, self.what = encoded, form, what
        self.broken: dict[int, UnreadableImageError] = {}
        self.shape = (form.channels, form.size, form.size)
        self._groups = None if groups is None else groups.numpy()
        self._file = _open_file(encoded, form, cache) if cache.bytes > 0 else None
        self._slots = np.full(len(encoded), -1, np.int64)
        self._contents: list[bytes] = []
        if self._file is not None:
            self._contents = [_digest(encoded.content(index)) for index in range(len(encoded))]
            self._slots = self._file.slots(self._contents)
        self._pool = ThreadPoolExecutor(threads())
        self._told = 0

    def __len__(self) -> int:
        return len(self.encoded)

    def read(self, index: Tensor) -> Tensor:
        """uint8 (n, channels, size, size)."""
        pixels = torch.empty(len(index), *self.shape, dtype=torch.uint8)
        rows, missing = pixels.numpy(), []
        for place, number in enumerate(index.tolist()):
            if not self._kept(number, rows[place]):
                missing.append((place, number))
        if missing:
            list(self._pool.map(lambda one: self._fill(one[1], rows[one[0]]), missing))
        return pixels

    def read_all(self) -> tuple[Tensor, Tensor]:
        """Which images can be read, and their pixels; rejected if fewer than half can."""
        pixels = torch.empty(len(self), *self.shape, dtype=torch.uint8)
        rows = pixels.numpy()
        numbers = range(len(self))
        good = list(self._pool.map(lambda one: self._kept(one, rows[one]) or self._decoded(one, rows[one]), numbers))
        self._refuse_ruins(len(self))
        kept = torch.tensor(good, dtype=torch.bool).nonzero().flatten()
        return kept, pixels if all(good) else pixels[kept]

    def readable(self, index: int) -> bool:
        """Whether the image can be decoded."""
        row = np.empty(self.shape, np.uint8)
        return self._kept(index, row) or self._decoded(index, row)

    def check(self, on_image: Callable[[], None] = lambda: None, *, whole: bool = False) -> None:
        """Decode a small set (or a whole one), or some images of a large one; rejected if more than half cannot be."""

        def one(index: int) -> None:
            self.readable(index)
            on_image()

        count = len(self)
        few = not whole and count > CHECKED
        some = [number * count // PROBED for number in range(PROBED)] if few else range(count)
        list(self._pool.map(one, some))
        self._refuse_ruins(len(some))

    def news(self) -> list[str]:
        """Which images were found to be unreadable since the last call."""
        broken = list(self.broken.values())
        new, self._told = broken[self._told :], len(broken)
        return [f"{self.what}: {self._listed(new, len(self))}; other images are used instead."] if new else []

    def left_out(self) -> tuple[str, ...]:
        """A note on the unreadable images, where they are left out."""
        broken = [self.broken[index] for index in sorted(self.broken)]
        return (f"{self.what}: {self._listed(broken, len(self), ' and are left out')}.",) if broken else ()

    def _kept(self, index: int, row: NDArray[np.uint8]) -> bool:
        slot = int(self._slots[index])
        return self._file is not None and slot >= 0 and self._file.read(slot, row)

    def _fill(self, index: int, row: NDArray[np.uint8]) -> None:
        for candidate in self._candidates(index):
            if (candidate != index and self._kept(candidate, row)) or self._decoded(candidate, row):
                return
            self._refuse_ruins(len(self))
        name = getattr(self.broken[index], "path", index)
        raise DataError(
            f"{self.what}: '{name}' cannot be read, nor can any other image of its class. Repair or remove them."
        )

    def _candidates(self, index: int) -> Iterator[int]:
        """The image itself, then those that may stand for it."""
        count = len(self)
        for step in range(count):
            other = (index + step) % count
            if self._groups is None or self._groups[other] == self._groups[index]:
                yield other

    def _decoded(self, index: int, row: NDArray[np.uint8]) -> bool:
        """Decode an image and keep it."""
        if index in self.broken:
            return False
        try:
            row[...] = self.encoded.decode(index, self.form).numpy()
        except UnreadableImageError as error:
            self.broken[index] = error
            return False
        slot = int(self._slots[index])
        # A file that has changed since the set was opened is not what its slot is for.
        if self._file is not None and slot >= 0 and _digest(self.encoded.content(index)) == self._contents[index]:
            self._file.write(slot, row)
        return True

    def _refuse_ruins(self, count: int) -> None:
        broken = [self.broken[index] for index in sorted(self.broken)]
        if 2 * len(broken) > count:
            raise DataError(f"{self.what}: {self._listed(broken, count)}. Repair or remove them.")

    def _listed(self, broken: Sequence[UnreadableImageError], count: int, more: str = "") -> str:
        listed = ", ".join(f"'{error.path}' ({error.reason})" for error in broken[:LISTED])
        further = f" and {len(broken) - LISTED} more" if len(broken) > LISTED else ""
        return f"{len(broken)} of {count} images cannot be read{more}: {listed}{further}"


class DecodedImages:
    """Decoded images as floats, changed at random where the transform does that."""

    prefetch = True
    """Reading them takes long enough to be done ahead."""

    def __init__(self, pixels: Pixels, transform: BatchTransform) -> None:
        self.pixels, self.transform = pixels, transform

    def __len__(self) -> int:
        return len(self.pixels)

    def fetch(self, index: Tensor, generator: torch.Generator) -> Tensor:
        """A batch of floats."""
        return self.transform(self.pixels.read(index), generator)


def pixels_behind(images: Images) -> list[Pixels]:
    """All that is decoded on the way when these images are fetched, each once."""
    found = [part.pixels for part in parts_of(images) if isinstance(part, DecodedImages)]
    return list(dict.fromkeys(found))


def threads() -> int:
    """Threads that decode at a time."""
    return min(8, os.cpu_count() or 1)


def _digest(content: str) -> bytes:
    return hashlib.blake2b(content.encode("utf-8", "surrogateescape"), digest_size=16).digest()


def _open_file(encoded: Encoded, form: InputSpec, cache: CacheConfig) -> PixelFile | None:
    """The set's file; None where none can be written."""
    made = f"{form.size} {form.channels} {form.interpolation} {PIL.__version__}"
    key = hashlib.sha256(f"{encoded.place}\0{made}".encode("utf-8", "surrogateescape")).hexdigest()
    path = cache.folder / f"images-{key[:16]}{SUFFIX}"
    what = f"{encoded.place[-1000:]}, {form.size} x {form.size}, {form.channels} channels"
    try:
        return PixelFile(path, key, (form.channels, form.size, form.size), limit=cache.bytes, what=what)
    except OSError:
        return None


@dataclass(frozen=True, eq=False)
class Decoded:
    """Files that could be read: which of the given ones, and their pixels unless they were too many."""

    kept: Tensor
    """Indices into the given paths."""
    paths: tuple[Path, ...]
    """The paths that could be read."""
    pixels: Tensor
    """uint8 (n, channels, size, size)."""
    notes: tuple[str, ...] = ()
    """What was left out."""


def decode_all(paths: Sequence[Path], form: InputSpec, *, what: str) -> Decoded:
    """Decode every file into memory; unreadable ones are named and left out, and rejected when more than half."""
    pixels = Pixels(Files(tuple(paths), Path()), form, what=what, cache=CacheConfig(bytes=0))
    kept, rows = pixels.read_all()
    return Decoded(kept, tuple(paths[i] for i in kept.tolist()), rows, pixels.left_out())
