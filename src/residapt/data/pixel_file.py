"""Decoded images of one set on disk: a file of rows that fills as images are decoded, in any order, by any process.

Each image has a slot, which belongs to one content for ever: to a name, size and time of change. A file that has
changed is another content and gets another slot, and so does a new one. Slots come in blocks, each with the records of
its slots before their pixels, so that the file can grow. Whoever decodes an image writes its pixels, then its record;
two processes that decode the same one write the same bytes. Pixels are read with ``pread``, not mapped: all processes
share the copy of the operating system, and a file that has become shorter is no reason to be killed.

Nothing wrong is ever read: the checksum in a record covers the pixels and the content they belong to. A process that
was killed while it wrote, a full disk and damage leave a slot that does not fit its checksum, and the image is decoded
again.
"""

from __future__ import annotations

import errno
import fcntl
import os
import weakref
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residapt.data.cache_folder import HEADER, room_for, touch
from residapt.data.row_file import UnusableFileError, made_header

BLOCK = 1024
"""Slots whose records lie together."""
_RECORD = np.dtype([("content", "S16"), ("state", "<u4"), ("check", "<u4"), ("own", "<u4")])
_EMPTY, _GIVEN, _THERE = range(3)
"""States of a slot: free, given to an image, with its pixels."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EBADF)

Records = NDArray[Any]
_open_here: weakref.WeakSet[PixelFile] = weakref.WeakSet()


class PixelFile:
    """Slots of a file; threads and processes may read and write at the same time.

    Args:
        path: The file; it is made unless it is there and fits.
        key: What all rows have in common; a file with another one is replaced.
        shape: Shape of a row of uint8.
        limit: Bytes that all files of the folder may have together.
        what: Where the images come from, for people.
    """

    def __init__(self, path: Path, key: str, shape: Sequence[int], *, limit: float, what: str = "") -> None:
        self.path, self.shape, self.row_bytes = path, tuple(shape), prod(shape)
        self.full = False
        """Whether the disk had no room for an image; those that are there are read all the same."""
        path.parent.mkdir(parents=True, exist_ok=True)
        header = made_header(key=key, shape=list(shape), dtype="uint8", rows=None, manifest={"what": what})
        self._descriptor = _open(path, header)
        weakref.finalize(self, os.close, self._descriptor)
        _open_here.add(self)
        touch(path)
        self._most = int(
            room_for(path, limit, {file.path for file in _open_here}) // (self.row_bytes + _RECORD.itemsize)
        )
        self._records = np.zeros(0, _RECORD)

    def slots(self, contents: Sequence[bytes]) -> NDArray[np.int64]:
        """The slot of each content (16 bytes that name it, not all zero); -1 for those that have no room."""
        with self._locked():
            self._records = self._read_records()
            known = {bytes(c): slot for slot, c in enumerate(self._records["content"]) if c}
            new = [content for content in dict.fromkeys(contents) if _stored(content) not in known]
            start = len(self._records)
            new = new[: max(0, self._most - start)]
            if new and self._append(new):
                known.update((_stored(content), start + place) for place, content in enumerate(new))
        return np.array([known.get(_stored(content), -1) for content in contents], np.int64)

    def read(self, slot: int, buffer: NDArray[np.uint8]) -> bool:
        """Fill the buffer with the pixels of a slot; False where they are not there, or damaged."""
        record = self._records[slot]
        if record["state"] != _THERE:
            record = self._look_again(slot)
            if record["state"] != _THERE:
                return False
        length = os.preadv(self._descriptor, [buffer.data], self._place(slot))
        if length == self.row_bytes and _checksum(buffer, record) == record["check"]:
            return True
        self._records[slot]["state"] = _GIVEN
        return False

    def write(self, slot: int, pixels: NDArray[np.uint8]) -> None:
        """Keep the pixels of a slot, unless the disk is full."""
        if not self._put(pixels.data, self._place(slot)):
            return
        record = self._records[slot : slot + 1].copy()
        record["state"], record["check"] = _THERE, _checksum(pixels, record[0])
        record["own"] = _own_check(record)
        if self._put(record.tobytes(), self._record_place(slot)):
            self._records[slot] = record[0]

    @property
    def count(self) -> int:
        """How many images are there."""
        return int((self._read_records()["state"] == _THERE).sum())

    def _look_again(self, slot: int) -> Any:
        """Another process may have decoded the image meanwhile."""
        found = np.frombuffer(os.pread(self._descriptor, _RECORD.itemsize, self._record_place(slot)), _RECORD)
        if len(found) and found["content"] == self._records[slot]["content"] and found["own"] == _own_check(found):
            self._records[slot] = found[0]
        return self._records[slot]

    def _read_records(self) -> Records:
        """All records up to the first that was never given; one that is damaged names no content."""
        size = os.fstat(self._descriptor).st_size
        blocks = []
        for block in range(max(0, -(-(size - HEADER) // self._block_bytes))):
            raw = os.pread(self._descriptor, BLOCK * _RECORD.itemsize, HEADER + block * self._block_bytes)
            blocks.append(np.frombuffer(raw[: len(raw) - len(raw) % _RECORD.itemsize], _RECORD))
        found = np.concatenate(blocks).copy() if blocks else np.zeros(0, _RECORD)
        used = np.flatnonzero(found["state"] != _EMPTY)
        found = found[: used[-1] + 1] if len(used) else found[:0]
        damaged = found["own"] != _own_check(found)
        found["content"][damaged], found["state"][damaged] = b"", _GIVEN
        return found

    def _append(self, contents: Sequence[bytes]) -> bool:
        records = np.zeros(len(contents), _RECORD)
        records["content"], records["state"] = [_stored(content) for content in contents], _GIVEN
        records["own"] = _own_check(records)
        start = len(self._records)
        for first in _parts(start, start + len(records)):
            part = records[first.start - start : first.stop - start]
            if not self._put(part.tobytes(), self._record_place(first.start)):
                return False
        self._records = np.concatenate([self._records, records])
        return True

    def _put(self, data: Any, place: int) -> bool:
        if self.full:
            return False
        try:
            written = os.pwrite(self._descriptor, data, place)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            self.full = True
            return False
        self.full = written != len(memoryview(data).cast("B"))
        return not self.full

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Slots are given by one process at a time; the lock ends with its process."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    @property
    def _block_bytes(self) -> int:
        return BLOCK * (_RECORD.itemsize + self.row_bytes)

    def _record_place(self, slot: int) -> int:
        block, place = divmod(slot, BLOCK)
        return HEADER + block * self._block_bytes + place * _RECORD.itemsize

    def _place(self, slot: int) -> int:
        block, place = divmod(slot, BLOCK)
        return HEADER + block * self._block_bytes + BLOCK * _RECORD.itemsize + place * self.row_bytes


def _open(path: Path, header: bytes) -> int:
    """A descriptor of the file, which is made under another name first, so that it has a whole header."""
    for _ in range(3):
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDWR)
            if os.pread(descriptor, HEADER, 0) == header:
                return descriptor
            os.close(descriptor)
            path.unlink(missing_ok=True)
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            partial.write_bytes(header)
            with suppress(FileExistsError):
                os.link(partial, path)
        finally:
            partial.unlink(missing_ok=True)
    raise UnusableFileError(f"'{path}' cannot be made: other processes replace it again and again.")


def _parts(start: int, stop: int) -> Iterator[range]:
    """The slots from ``start`` to ``stop``, split at the borders of blocks."""
    while start < stop:
        end = min(stop, (start // BLOCK + 1) * BLOCK)
        yield range(start, end)
        start = end


def _stored(content: bytes) -> bytes:
    """As numpy keeps it: without zeros at the end."""
    return content.rstrip(b"\0")


def _checksum(pixels: NDArray[np.uint8], record: Any) -> int:
    return zlib.crc32(pixels.data, zlib.crc32(bytes(record["content"])))


def _own_check(records: Records) -> NDArray[np.uint32]:
    """Checksums of records, without their own: a record that was written in part shows."""
    words = records.view("<u4").reshape(len(records), _RECORD.itemsize // 4)[:, :-1].astype(np.uint64)
    odd = 2 * np.arange(1, words.shape[1] + 1, dtype=np.uint64) ** 7 + 1
    made: NDArray[np.uint32] = ((words * odd).sum(1) % 2**32).astype(np.uint32) | 1
    return made
