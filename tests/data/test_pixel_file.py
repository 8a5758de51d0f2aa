"""The file of decoded images: nothing wrong is ever read from it, whatever happens to it or to its writers."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from residapt.data import pixel_file
from residapt.data.cache_folder import HEADER, entries, remove, room_for
from residapt.data.pixel_file import PixelFile

SHAPE = (3, 4, 4)


def content(number: int) -> bytes:
    return f"{number:016d}".encode()


def pixels(number: int) -> NDArray[np.uint8]:
    return np.random.default_rng(number).integers(0, 256, SHAPE, np.uint8)


def opened(folder: Path, limit: float = 1e9, key: str = "key") -> PixelFile:
    return PixelFile(folder / "images-a.rows", key, SHAPE, limit=limit, what="photos")


def read(file: PixelFile, slot: int) -> NDArray[np.uint8] | None:
    row = np.empty(SHAPE, np.uint8)
    return row if file.read(slot, row) else None


def filled(folder: Path, numbers: range) -> PixelFile:
    file = opened(folder)
    for number, slot in zip(numbers, file.slots([content(n) for n in numbers]), strict=True):
        file.write(slot, pixels(number))
    return file


def assert_right(file: PixelFile, numbers: range) -> int:
    """What is there is right; gives how many are there."""
    found = [read(file, slot) for slot in file.slots([content(n) for n in numbers])]
    for number, row in zip(numbers, found, strict=True):
        assert row is None or np.array_equal(row, pixels(number))
    return sum(row is not None for row in found)


def test_what_was_written_is_found_again_by_content(tmp_path: Path) -> None:
    filled(tmp_path, range(5))
    again = opened(tmp_path)
    slots = again.slots([content(n) for n in (4, 9, 0)])
    assert np.array_equal(read(again, slots[0]), pixels(4))
    assert read(again, slots[1]) is None
    assert np.array_equal(read(again, slots[2]), pixels(0))
    assert again.count == 5


def test_files_grow_over_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixel_file, "BLOCK", 4)
    for stop in (3, 4, 11, 12, 30):
        filled(tmp_path, range(stop))
        assert assert_right(opened(tmp_path), range(stop)) == stop


@given(st.lists(st.binary(min_size=16, max_size=16).filter(any), min_size=1, max_size=30))
def test_slots_are_one_to_one(contents: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        slots = opened(Path(folder)).slots(contents)
        stored = [c.rstrip(b"\0") for c in contents]
        assert len(set(slots.tolist())) == len(set(stored))
        assert all((slots[i] == slots[j]) == (stored[i] == stored[j]) for i in range(len(slots)) for j in range(i))
        assert np.array_equal(opened(Path(folder)).slots(contents), slots)


def test_another_process_sees_what_came_later(tmp_path: Path) -> None:
    first, second = opened(tmp_path), opened(tmp_path)
    slots = first.slots([content(0)])
    assert np.array_equal(slots, second.slots([content(0)]))
    assert read(second, slots[0]) is None
    first.write(slots[0], pixels(0))
    assert np.array_equal(read(second, slots[0]), pixels(0))


def test_two_that_give_slots_at_once_never_share_one(tmp_path: Path) -> None:
    first, second = opened(tmp_path), opened(tmp_path)
    a = first.slots([content(n) for n in range(0, 6)])
    b = second.slots([content(n) for n in range(4, 10)])
    assert len({*a.tolist(), *b.tolist()}) == 10
    assert np.array_equal(a[4:], b[:2])


@pytest.mark.parametrize("place", range(0, 40))
def test_a_changed_byte_is_seen(tmp_path: Path, place: int) -> None:
    """Anywhere behind the header: among the records or the pixels of both slots."""
    file = filled(tmp_path, range(2))
    start = HEADER + place if place < 20 else file._place(0) + (place - 20) * 2 * file.row_bytes // 20
    with file.path.open("r+b") as raw:
        raw.seek(start)
        byte = raw.read(1)
        raw.seek(start)
        raw.write(bytes([byte[0] ^ 0x10]))
    assert assert_right(opened(tmp_path), range(2)) <= 1 + (start >= HEADER + 28 and place < 20)


@pytest.mark.parametrize("length", [0, 10, HEADER, HEADER + 30, HEADER + 28 * pixel_file.BLOCK + 20])
def test_a_shortened_file_gives_nothing_wrong(tmp_path: Path, length: int) -> None:
    file = filled(tmp_path, range(3))
    os.truncate(file.path, length)
    assert_right(file, range(3))
    again = filled(tmp_path, range(3))
    assert assert_right(again, range(3)) == 3


def test_a_file_of_other_images_is_replaced(tmp_path: Path) -> None:
    filled(tmp_path, range(3))
    assert opened(tmp_path, key="another").count == 0
    (tmp_path / "images-a.rows").write_bytes(b"rubbish")
    assert opened(tmp_path).count == 0


def test_a_full_disk_ends_writing_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = opened(tmp_path)
    slots = file.slots([content(n) for n in range(4)])
    file.write(slots[0], pixels(0))
    real, calls = os.pwrite, []

    def full(descriptor: int, data: bytes, place: int) -> int:
        calls.append(place)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data, place)

    monkeypatch.setattr(os, "pwrite", full)
    file.write(slots[1], pixels(1))  # its pixels fit, its record does not
    assert file.full
    file.write(slots[2], pixels(2))
    assert len(calls) == 2  # it is not tried again
    assert [read(file, slot) is not None for slot in slots] == [True, False, False, False]
    assert (opened(tmp_path).slots([content(n) for n in range(10, 12)]) == -1).all()


def _write_for_ever(folder: Path) -> None:
    while True:
        filled(folder, range(200))
        (folder / "images-a.rows").unlink(missing_ok=True)


def test_writers_that_are_killed_leave_nothing_wrong(tmp_path: Path) -> None:
    for _ in range(4):
        child = multiprocessing.get_context("fork").Process(target=_write_for_ever, args=(tmp_path,))
        child.start()
        child.join(0.15)
        os.kill(child.pid or 0, signal.SIGKILL)
        child.join()
        assert_right(opened(tmp_path), range(200))
    assert assert_right(filled(tmp_path, range(200)), range(200)) == 200


def _fill(folder: Path, start: int) -> None:
    filled(folder, range(start, start + 60))


def test_builders_at_once_fill_one_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=_fill, args=(tmp_path, start)) for start in (0, 0, 30, 60)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * 4
    assert assert_right(opened(tmp_path), range(120)) == 120
    assert opened(tmp_path).count == 120
    assert opened(tmp_path).slots([content(120)]).tolist() == [120]


def test_the_limit_is_kept_and_old_files_go_first(tmp_path: Path) -> None:
    row = 3 * 4 * 4 + 28
    file = PixelFile(tmp_path / "images-b.rows", "b", SHAPE, limit=5.5 * row)
    assert file.slots([content(n) for n in range(9)]).tolist() == [0, 1, 2, 3, 4, -1, -1, -1, -1]
    for age, name in enumerate(("new", "old")):
        path = tmp_path / f"{name}.rows"
        path.write_bytes(b"x" * 8192)
        os.utime(path, (1e9 - age, 1e9 - age))
    size = entries(tmp_path)[-1].bytes
    assert room_for(tmp_path / "images-b.rows", 2.2 * size) == pytest.approx(1.2 * size)
    assert (tmp_path / "new.rows").exists()
    assert not (tmp_path / "old.rows").exists()
    assert room_for(tmp_path / "c.rows", size, keep=[tmp_path / "new.rows", file.path]) == 0
    assert remove(entries(tmp_path)) > 0
    assert entries(tmp_path) == []
    assert read(file, 0) is None  # still open, and still nothing wrong
