"""Images that are decoded when they are needed: equal to decoding at once, whatever the cache holds, and repeatable."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import Tensor

from residapt.data import decoded
from residapt.data.decode import decode_image
from residapt.data.decoded import CacheConfig, DecodedImages, Files, Pixels
from residapt.data.preprocess import Normalise
from residapt.data.sources import Reading, open_source, open_target
from residapt.errors import DataError
from residapt.models.input_spec import InputSpec

FORM = InputSpec(size=8, channels=3, mean=(0.5,) * 3, std=(0.5,) * 3, interpolation="bilinear")


def picture(path: Path, number: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (12, 10), (number * 5 % 256, 255 - number % 256, 60)).save(path)
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number in range(20):
        picture(tmp_path / "photos" / ["cat", "dog"][number % 2] / f"{number:02d}.png", number)
    return tmp_path / "photos"


def files(folder: Path) -> Files:
    return Files(tuple(sorted(folder.rglob("*.png"))), folder)


def pixels(folder: Path, cache: CacheConfig, groups: Tensor | None = None) -> Pixels:
    return Pixels(files(folder), FORM, what="target", cache=cache, groups=groups)


def plain(folder: Path) -> Tensor:
    return torch.stack([decode_image(path, size=8, channels=3) for path in files(folder).files])


def no_decoding(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    seen: list[Path] = []

    def count(path: Path, **settings: object) -> Tensor:
        seen.append(path)
        return decode_image(path, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(decoded, "decode_image", count)
    return seen


@pytest.mark.parametrize("size", [0.0, 1e9, 700.0])
def test_pixels_are_those_of_the_files(photos: Path, tmp_path: Path, size: float) -> None:
    """With a cache, without one, and with one that has room for some."""
    index = torch.tensor([7, 0, 19, 7])
    for _ in range(2):
        found = pixels(photos, CacheConfig(size, tmp_path / "cache"))
        assert torch.equal(found.read(index), plain(photos)[index])
        assert torch.equal(found.read(index), plain(photos)[index])
    fetched = DecodedImages(found, Normalise(FORM.mean, FORM.std)).fetch(index, torch.Generator())
    assert torch.equal(fetched, Normalise(FORM.mean, FORM.std)(plain(photos)[index], torch.Generator()))


def test_a_second_run_decodes_nothing_and_a_grown_folder_only_what_is_new(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = CacheConfig(1e9, tmp_path / "cache")
    pixels(photos, cache).read(torch.arange(20))
    seen = no_decoding(monkeypatch)
    pixels(photos, cache).read(torch.arange(20))
    assert not seen
    new = [picture(photos / "cat" / "005.png", 77), picture(photos / "eel" / "x.png", 78)]
    assert torch.equal(pixels(photos, cache).read(torch.arange(22)), plain(photos))
    assert set(seen) == set(new)


def test_changed_and_removed_files(photos: Path, tmp_path: Path) -> None:
    cache = CacheConfig(1e9, tmp_path / "cache")
    pixels(photos, cache).read(torch.arange(20))
    picture(photos / "cat" / "04.png", 200)
    os.utime(photos / "cat" / "04.png", (1, 1))
    (photos / "dog" / "03.png").unlink()
    assert torch.equal(pixels(photos, cache).read(torch.arange(19)), plain(photos))


def test_a_file_that_changes_while_the_set_is_open_is_not_kept_as_what_it_was(photos: Path, tmp_path: Path) -> None:
    cache, file = CacheConfig(1e9, tmp_path / "cache"), photos / "cat" / "00.png"
    about, before = file.stat(), file.read_bytes()
    found = pixels(photos, cache)
    picture(file, 200)
    found.read(torch.tensor([0]))
    file.write_bytes(before)
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert torch.equal(pixels(photos, cache).read(torch.tensor([0])), plain(photos)[:1])


def test_an_unreadable_image_is_replaced_by_the_next_of_its_class_whenever_it_is_found(
    photos: Path, tmp_path: Path
) -> None:
    for number in (4, 6):
        (photos / "cat" / f"{number:02d}.png").write_bytes(b"no image")
    labels = torch.tensor([0] * 10 + [1] * 10)
    expected = None
    for order in (torch.arange(20), torch.arange(20).flip(0), torch.tensor([3, 2, 3]), torch.arange(20)):
        for size in (0.0, 1e9):
            found = pixels(photos, CacheConfig(size, tmp_path / "cache"), labels)
            found.read(order)
            everything = found.read(torch.arange(20))
            assert expected is None or torch.equal(everything, expected)
            expected = everything
    assert torch.equal(expected[2], expected[4])
    assert torch.equal(expected[3], expected[4])
    assert [message.count("'") for message in found.news()] == [4]
    assert found.news() == []


def test_a_class_is_replaced_by_no_other_class(photos: Path) -> None:
    for path in sorted((photos / "cat").iterdir()):
        path.write_bytes(b"")
    found = pixels(photos, CacheConfig(0), torch.tensor([0] * 10 + [1] * 10))
    with pytest.raises(DataError, match=r"00\.png"):
        found.read(torch.tensor([0]))


def test_more_than_half_unreadable_ends_the_run(photos: Path) -> None:
    for path in files(photos).files[5:16]:
        path.write_bytes(b"")
    with pytest.raises(DataError, match="11 of 20"):
        pixels(photos, CacheConfig(0)).check()
    with pytest.raises(DataError, match="11 of 20"):
        pixels(photos, CacheConfig(0)).read(torch.arange(20))


def test_large_sets_keep_their_numbers_and_small_ones_leave_unreadable_images_out(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (photos / "cat" / "00.png").write_bytes(b"")
    reading = Reading(FORM, augment=False, cache=CacheConfig(1e9, tmp_path / "cache"))
    small = open_source(photos, reading)
    assert len(small.images) == len(small.labels) == len(small.images.names) == 19
    monkeypatch.setattr("residapt.data.decoded.CHECKED", 10)
    monkeypatch.setattr("residapt.data.sources.CHECKED", 10)
    large, target = open_source(photos, reading), open_target(photos, reading)
    assert len(large.images) == len(large.labels) == len(target) == 20
    index = torch.tensor([0, 1])
    both = large.images.plain.fetch(index, torch.Generator())
    assert torch.equal(both[0], both[1])


def test_a_folder_that_cannot_be_written_to_is_done_without(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = pixels(photos, CacheConfig(1e9, tmp_path / "file" / "cache"))
    assert torch.equal(found.read(torch.arange(20)), plain(photos))
