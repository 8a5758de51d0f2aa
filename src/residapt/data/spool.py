"""Pixels of a stream, written to a temporary file as they come, and read from there as a tensor."""

from __future__ import annotations

import tempfile
from typing import IO

import numpy as np
import torch
from torch import Tensor

from residapt.data.decoded import CacheConfig
from residapt.errors import DataError

SMALLEST = 4e9
"""Bytes that a stream may have where no cache is kept."""


class Spool:
    """Equally shaped uint8 images. The file has no name and ends with the tensor that reads it."""

    def __init__(self, cache: CacheConfig, what: str) -> None:
        self.cache, self.what = cache, what
        self.limit = cache.bytes or SMALLEST
        self.count = 0
        self._shape: tuple[int, ...] = ()
        self._file: IO[bytes] | None = None

    def add(self, image: Tensor) -> None:
        """One more image."""
        self._shape = self._shape or tuple(image.shape)
        if tuple(image.shape) != self._shape:
            raise DataError(
                f"{self.what}: image {self.count} of the stream is {tuple(image.shape)}, the first is {self._shape}. "
                "Bring all images to one size, or give them as PIL images."
            )
        if (self.count + 1) * image.nbytes > self.limit:
            raise DataError(
                f"{self.what} is a stream of more than {self.limit / 1e9:g} GB of pixels ({self.count} images). Raise "
                "data.cache_gb, give fewer images, or a data set with rows by number."
            )
        try:
            self._open().write(image.contiguous().numpy().tobytes())
        except OSError as error:
            raise DataError(
                f"{self.what}: the stream cannot be kept in '{self.cache.folder}': {error.strerror}. Make room there, "
                "or name another folder in RESIDAPT_CACHE."
            ) from None
        self.count += 1

    def _open(self) -> IO[bytes]:
        if self._file is None:
            self.cache.folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=self.cache.folder)  # noqa: SIM115
        return self._file

    def images(self) -> Tensor:
        """All images; pixels are read from the file when they are used."""
        assert self._file is not None
        self._file.flush()
        # Copy on write: the tensor must be writable for torch, and nobody writes.
        mapped = np.memmap(self._file, np.uint8, "c", shape=(self.count, *self._shape))
        return torch.from_numpy(mapped)
