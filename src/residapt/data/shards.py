"""Images in tar files (WebDataset shards): found by one pass over the headers, then read where they lie.

``000017.jpg`` and ``000017.cls`` are one sample. Its class is in ``.cls`` (a number or a name), in ``.json`` (under
class, label or cls), or the folder that the image is in.
"""

from __future__ import annotations

import glob
import io
import json
import os
import re
import tarfile
import threading
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from residapt.data.image_files import is_image_name
from residapt.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

    from residapt.models.input_spec import InputSpec

LABEL_KEYS = ("class", "label", "cls")
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")


def shards_in(place: Path) -> tuple[Path, ...]:
    """The tar files that a place means: itself, those of a folder, or those of a pattern; () if it means none.

    Patterns are ``train-{0000..0099}.tar`` and ``train-*.tar``. A folder with folders in it is one of images.
    """
    text = str(place)
    if place.is_dir():
        found = tuple(sorted(place.glob("*.tar")))
        return () if not found or any(entry.is_dir() for entry in place.iterdir()) else found
    if not text.endswith(".tar"):
        return ()
    if match := _RANGE.search(text):
        first, last = match.groups()
        numbers = (f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1))
        return tuple(Path(text[: match.start()] + number + text[match.end() :]) for number in numbers)
    if "*" in text:
        if matched := sorted(glob.glob(text)):
            return tuple(map(Path, matched))
        raise DataError(f"no file matches '{place}'. Check the path.")
    return (place,)


@dataclass(frozen=True, eq=False)
class Shards:
    """Images in tar files."""

    shards: tuple[Path, ...]
    shard: array[int]
    """The file of each image."""
    start: array[int]
    """Where its bytes begin there."""
    length: array[int]
    _descriptors: dict[int, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def place(self) -> str:
        """The folder of the first."""
        return f"{self.shards[0].parent.absolute()} tar"

    @property
    def files(self) -> tuple[Path, ...]:
        """None is a file of its own."""
        return ()

    def __len__(self) -> int:
        return len(self.shard)

    def __del__(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)

    def names(self) -> Sequence[str]:
        """Shard and place of each."""
        return _Names(self)

    def content(self, index: int) -> str:
        """Shard, its time of change, and place."""
        number = self.shard[index]
        return f"{self.shards[number].absolute()} {self._changed(number)} {self.start[index]} {self.length[index]}"

    def decode(self, index: int, form: InputSpec) -> Tensor:
        """The image."""
        from residapt.data.decode import decode_image  # only here: finding images needs no torch

        encoded = os.pread(self._open(self.shard[index]), self.length[index], self.start[index])
        return decode_image(
            Path(self.names()[index]),
            size=form.size,
            channels=form.channels,
            interpolation=form.interpolation,
            encoded=encoded,
        )

    def _changed(self, number: int) -> int:
        return os.fstat(self._open(number)).st_mtime_ns

    def _open(self, number: int) -> int:
        """A descriptor of a shard, which stays open."""
        with self._lock:
            if number not in self._descriptors:
                try:
                    self._descriptors[number] = os.open(self.shards[number], os.O_RDONLY)
                except OSError as error:
                    raise DataError(
                        f"shard '{self.shards[number]}' cannot be read any more: {error.strerror}. Bring it back."
                    ) from None
            return self._descriptors[number]


class _Names(Sequence[str]):
    """Names that are made when they are needed: there may be very many."""

    def __init__(self, shards: Shards) -> None:
        self.shards = shards

    def __len__(self) -> int:
        return len(self.shards)

    def __getitem__(self, index: int) -> str:  # type: ignore[override]
        shards = self.shards
        return f"{shards.shards[shards.shard[index]].name}/{shards.start[index] // tarfile.BLOCKSIZE - 1}"


def read_shards(files: Sequence[Path], *, labelled: bool) -> tuple[Shards, list[str]]:
    """The images of tar files in their order, and where they are ``labelled`` the class of each."""
    found = Shards(tuple(files), array("l"), array("q"), array("q"))
    classes: list[str] = []
    for number, file in enumerate(files):
        for start, length, name in _images(file, labelled):
            found.shard.append(number)
            found.start.append(start)
            found.length.append(length)
            if labelled:
                classes.append(name)
    if not len(found):
        raise DataError(f"'{files[0]}' holds no images. Give tar files with .jpg, .png or other image files.")
    return found, classes


def _images(file: Path, labelled: bool) -> Iterator[tuple[int, int, str]]:
    """Where each image is, and its class; the parts of a sample may come in any order."""
    images: dict[str, tuple[int, int]] = {}
    classes: dict[str, str] = {}
    try:
        with tarfile.open(file, "r:") as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                key = str(path.parent / path.name.partition(".")[0])
                if not member.isfile():
                    continue
                if is_image_name(path.name):
                    images.setdefault(key, (member.offset_data, member.size))
                elif labelled and path.suffix in (".cls", ".json") and (content := archive.extractfile(member)):
                    classes.setdefault(key, _class(file, member.name, content.read()))
                archive.members = []  # type: ignore[attr-defined]  # which would keep all of them
    except (OSError, tarfile.TarError) as error:
        raise DataError(f"shard '{file}' cannot be read: {error}. Give uncompressed tar files.") from None
    for key, (start, length) in images.items():
        name = classes.get(key) or (str(PurePosixPath(key).parent.name) if labelled else "")
        if labelled and not name:
            raise DataError(f"'{file}': image '{key}' has no class. Put '{key}.cls' beside it, or it into a folder.")
        yield start, length, name


def _class(file: Path, name: str, content: bytes) -> str:
    text = content.decode("utf-8", "replace").strip()
    if not name.endswith(".json"):
        return text
    try:
        values = json.load(io.StringIO(text))
        return next((str(values[key]) for key in LABEL_KEYS if key in values), "")
    except (ValueError, TypeError):
        raise DataError(f"'{file}': '{name}' is not a JSON object. Correct it, or remove it.") from None
