"""Folders as people have them: what is found, what is refused with which words, and what odd files become."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from residapt.data.decoded import decode_all
from residapt.data.folders import scan_labelled, scan_source, scan_target
from residapt.errors import DataError

FORM = SimpleNamespace(size=8, channels=3, mean=(0.5,) * 3, std=(0.5,) * 3, interpolation="bilinear")
GREY = SimpleNamespace(size=8, channels=1, mean=(0.5,), std=(0.5,), interpolation="bilinear")


def picture(path: Path, colour: tuple[int, int, int] = (200, 30, 60), mode: str = "RGB") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (12, 10), colour).convert(mode).save(path)
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for name in ("cat", "dog", "eel"):
        for number in range(3):
            picture(tmp_path / "photos" / name / f"{number}.png")
    return tmp_path / "photos"


def test_classes_are_the_folders_in_order_of_their_names(photos: Path) -> None:
    picture(photos / "dog" / "deeper" / "still" / "x.jpg")
    found = scan_source(photos)
    assert found.classes == ("cat", "dog", "eel")
    assert found.labels.tolist() == [0] * 3 + [1] * 4 + [2] * 3
    assert all(
        path.relative_to(photos).parts[0] == found.classes[label]
        for path, label in zip(found.paths, found.labels, strict=True)
    )
    assert found.notes == ()


def test_hidden_folders_are_no_classes_and_loose_images_are_told(photos: Path) -> None:
    picture(photos / ".cache" / "a.png")
    picture(photos / "loose.png")
    found = scan_source(photos)
    assert found.classes == ("cat", "dog", "eel")
    assert len(found.paths) == 9
    assert "1 images directly in" in found.notes[0]


def test_an_empty_class_is_refused_by_name(photos: Path) -> None:
    (photos / "fox").mkdir()
    (photos / "fox" / "readme.txt").write_text("soon")
    with pytest.raises(DataError, match=r"'.*fox'"):
        scan_source(photos)


def test_one_class_is_refused_and_a_folder_too_high_is_guessed(tmp_path: Path, photos: Path) -> None:
    with pytest.raises(DataError, match=rf"'photos'.*'{photos}'"):
        scan_source(tmp_path)
    picture(tmp_path / "alone" / "cat" / "a.png")
    with pytest.raises(DataError, match="1 class"):
        scan_source(tmp_path / "alone")


def test_a_flat_folder_is_no_source(tmp_path: Path) -> None:
    picture(tmp_path / "flat" / "a.png")
    with pytest.raises(DataError, match="1 images"):
        scan_source(tmp_path / "flat")
    with pytest.raises(DataError):
        scan_source(tmp_path / "nowhere")


@pytest.mark.parametrize(("first", "second"), [("Cat", "cat"), ("stra\u00dfe", "STRASSE"), ("caf\u00e9", "cafe\u0301")])
def test_names_that_only_look_different_are_refused(tmp_path: Path, first: str, second: str) -> None:
    picture(tmp_path / "s" / first / "a.png")
    picture(tmp_path / "s" / second / "a.png")
    picture(tmp_path / "s" / "dog" / "a.png")
    if len(list((tmp_path / "s").iterdir())) < 3:
        pytest.skip("this file system cannot hold both names")
    with pytest.raises(DataError, match="differ only in case"):
        scan_source(tmp_path / "s")


def test_parts_of_a_data_set_are_not_taken_for_classes(tmp_path: Path) -> None:
    for part in ("train", "test"):
        for name in ("cat", "dog"):
            picture(tmp_path / part / name / "a.png")
    with pytest.raises(DataError, match="test, train"):
        scan_source(tmp_path)
    # Real classes of these names have no such folders inside.
    for part in ("train", "test"):
        picture(tmp_path / "toys" / part / "a.png")
    assert scan_source(tmp_path / "toys").classes == ("test", "train")


def test_the_target_ignores_folders(photos: Path, tmp_path: Path) -> None:
    assert len(scan_target(photos)) == 9
    (tmp_path / "empty" / "deep").mkdir(parents=True)
    with pytest.raises(DataError, match=r"'.*empty'"):
        scan_target(tmp_path / "empty")


def test_a_folder_to_score_may_lack_classes_but_not_add_any(photos: Path, tmp_path: Path) -> None:
    picture(tmp_path / "scored" / "eel" / "a.png")
    (tmp_path / "scored" / "cat").mkdir()
    found = scan_labelled(tmp_path / "scored", ("cat", "dog", "eel"))
    assert found.labels.tolist() == [2]
    picture(tmp_path / "other" / "Eel" / "a.png")
    with pytest.raises(DataError, match=r"'.*Eel'.*'eel'"):
        scan_labelled(tmp_path / "other", ("cat", "dog", "eel"))
    with pytest.raises(DataError, match="cannot be scored"):
        scan_labelled(tmp_path / "scored" / "cat", ("cat", "dog", "eel"))


def test_unreadable_images_are_left_out_by_name(photos: Path) -> None:
    paths = [*scan_target(photos)]
    paths[4].write_bytes(b"not an image")
    decoded = decode_all(paths, FORM, what="target")
    assert decoded.kept.tolist() == [0, 1, 2, 3, 5, 6, 7, 8]
    assert decoded.pixels.shape == (8, 3, 8, 8)
    assert len(decoded.notes) == 1
    assert str(paths[4]) in decoded.notes[0]
    assert "1 of 9" in decoded.notes[0]


def test_more_than_half_unreadable_is_refused(photos: Path) -> None:
    paths = scan_target(photos)
    for path in paths[:5]:
        path.write_bytes(b"")
    with pytest.raises(DataError, match=r"target.*5 of 9.*0\.png'"):
        decode_all(paths, FORM, what="target")


def test_odd_images_are_read(tmp_path: Path) -> None:
    """Alpha, 16 bits, CMYK, palettes and a file name that is a script: each becomes ordinary pixels."""
    tmp_path.joinpath("odd").mkdir()
    odd = tmp_path / "odd"
    Image.new("RGBA", (9, 9), (255, 0, 0, 0)).save(odd / "alpha.png")
    Image.fromarray(np.full((9, 9), 257 * 100, dtype=np.uint16)).save(odd / "deep.png")
    Image.new("CMYK", (9, 9), (0, 255, 255, 0)).save(odd / "ink.jpg")
    Image.new("P", (9, 9), 0).save(odd / "palette.gif")
    Image.new("L", (9, 9), 77).save(odd / "<script>alert(1)<&script>.png")
    paths = scan_target(odd)
    colour = decode_all(paths, FORM, what="target")
    grey = decode_all(paths, GREY, what="target")
    assert len(paths) == 5
    assert not colour.notes
    assert not grey.notes
    by_name = {path.name: pixels for path, pixels in zip(colour.paths, colour.pixels, strict=True)}
    assert (by_name["alpha.png"] == 255).all()  # what is transparent is white, whatever colour lies below
    assert (by_name["deep.png"] == 100).all()
    red = by_name["ink.jpg"].float().mean((1, 2))
    assert red[0] > 200
    assert red[1:].max() < 60
    assert (by_name["<script>alert(1)<&script>.png"] == 77).all()
    assert grey.pixels.shape == (5, 1, 8, 8)
