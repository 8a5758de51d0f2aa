"""Equally shaped tensors in one file, each read by its place and checked; written once, found again by all processes.

The file is read with ``pread``, not mapped: one that has become shorter is then an error instead of a killed
process, and what has been read does not stay in the process's memory.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from residapt.data.cache_folder import HEADER, MAGIC
from residapt.errors import ConfigError, DataError

_TYPES = {"float16": torch.float16, "float32": torch.float32, "uint8": torch.uint8}


class UnusableFileError(DataError):
    """A file that is not the expected one: of other data, unfinished or damaged."""


class RowFile:
    """Rows of a finished file; processes and threads may read at the same time, also after a fork."""

    def __init__(self, path: Path, key: str | None = None) -> None:
        self.path, self.key = path, key
        self._descriptor = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)
        header = read_header(self._descriptor, path)
        try:
            self.shape = tuple(int(side) for side in header["shape"])
            """Shape of a row."""
            self.dtype, self.count = _TYPES[header["dtype"]], int(header["rows"])
            self.manifest: Mapping[str, Any] = header["manifest"]
            """What the rows were made from."""
        except (KeyError, TypeError, ValueError):
            raise UnusableFileError(f"'{path}' has a damaged header.") from None
        self.row_bytes = prod(self.shape) * self.dtype.itemsize
        self._checks = self._read_checks()
        if key is not None and header.get("key") != key:
            raise UnusableFileError(f"'{path}' was made from other data (key {header.get('key')}, wanted {key}).")

    def __len__(self) -> int:
        return self.count

    def __reduce__(self) -> tuple[type[RowFile], tuple[Path, str | None]]:
        return type(self), (self.path, self.key)

    def read(self, rows: Tensor) -> Tensor:
        """The rows of these numbers, in that order."""
        found = torch.empty(len(rows), *self.shape, dtype=self.dtype)
        views = found.view(len(rows), -1).numpy().view(np.uint8) if len(rows) else ()
        for row, buffer in zip(rows.tolist(), views, strict=True):
            if not 0 <= row < self.count:
                raise IndexError(f"row {row} of {self.count}")
            length = os.preadv(self._descriptor, [buffer], HEADER + row * self.row_bytes)
            if length != self.row_bytes or zlib.crc32(buffer) != self._checks[row]:
                raise DataError(
                    f"'{self.path}' has been changed or damaged since it was written (row {row} of {self.count}). "
                    "Remove the file and start again: it will be made again."
                )
        return found

    def _read_checks(self) -> np.ndarray[Any, np.dtype[np.uint32]]:
        """The checksums behind the rows; their own checksum covers the header as well."""
        start = HEADER + self.count * self.row_bytes
        size = os.fstat(self._descriptor).st_size
        expected = start + 4 * self.count + 4
        if size != expected:
            raise UnusableFileError(f"'{self.path}' has {size} bytes instead of {expected}.")
        end = os.pread(self._descriptor, 4 * self.count + 4, start)
        checks, own = end[:-4], int.from_bytes(end[-4:], "little")
        if zlib.crc32(checks, zlib.crc32(os.pread(self._descriptor, HEADER, 0))) != own:
            raise UnusableFileError(f"'{self.path}' has a damaged header or damaged checksums.")
        return np.frombuffer(checks, dtype="<u4")


def write_rows(
    path: Path,
    blocks: Iterable[Tensor],
    *,
    rows: int,
    key: str,
    manifest: Mapping[str, Any] | None = None,
) -> None:
    """Write all rows, block by block; the file appears under its name when it is complete, or not at all.

    Whoever writes must hold the lock of :func:`only_one`.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            _write(file, path, blocks, rows, key, manifest or {})
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise ConfigError(
            f"'{path}' cannot be written: {error.strerror or error}. Make room there, or choose another place."
        ) from None
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def only_one(path: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Other processes that want to write the same file wait here; the lock ends with its process."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_name(f".{path.name}.lock").open("a")
    except OSError as error:
        raise ConfigError(f"'{path.parent}' cannot be written to: {error.strerror}. Choose another place.") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write(file: Any, path: Path, blocks: Iterable[Tensor], rows: int, key: str, manifest: Mapping[str, Any]) -> None:
    checks = np.zeros(rows, dtype="<u4")
    header, written = b"", 0
    for block in blocks:
        values = block.detach().cpu().contiguous().flatten(1).numpy().view(np.uint8)
        if not header:
            header = _made_header(block, rows, key, manifest)
            _require_room(path, HEADER + rows * (values.shape[1] + 4) + 4)
            file.write(header)
        checks[written : written + len(values)] = [zlib.crc32(row) for row in values]
        file.write(values.data)
        written += len(values)
    if written != rows:
        raise DataError(f"'{path}': {rows} rows were expected, but {written} were given.")
    file.write(checks.tobytes())
    file.write(zlib.crc32(checks.tobytes(), zlib.crc32(header)).to_bytes(4, "little"))


def _made_header(block: Tensor, rows: int, key: str, manifest: Mapping[str, Any]) -> bytes:
    dtype = str(block.dtype).removeprefix("torch.")
    if dtype not in _TYPES:
        raise DataError(f"rows of {dtype} cannot be written.")
    return made_header(key=key, shape=list(block.shape[1:]), dtype=dtype, rows=rows, manifest=dict(manifest))


def made_header(**content: Any) -> bytes:
    """What stands before the first row."""
    header = MAGIC + json.dumps(content).encode()
    if len(header) > HEADER:
        raise DataError(f"a header of {len(header)} bytes cannot be written.")
    return header.ljust(HEADER)


def read_header(descriptor: int, path: Path) -> dict[str, Any]:
    """The header of an open file of rows."""
    start = os.pread(descriptor, HEADER, 0)
    if len(start) < HEADER or not start.startswith(MAGIC):
        raise UnusableFileError(f"'{path}' is not a file of rows.")
    try:
        header = json.loads(start[len(MAGIC) :])
    except ValueError:
        header = None
    return header if isinstance(header, dict) else {}


def _require_room(path: Path, needed: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if needed > free:
        raise ConfigError(
            f"'{path}' needs {needed / 1e6:,.0f} MB, and {free / 1e6:,.0f} MB are free there. "
            "Make room, choose another place, or ask for fewer views."
        )
