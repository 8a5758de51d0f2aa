"""A labelled source as a CSV file: the images, classes and order that class folders would give."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from residapt.data.folders import scan_source
from residapt.data.labelled_files import find_labelled, find_source
from residapt.errors import DataError
from support.small_world import CLASSES, labelled


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return labelled(tmp_path / "photos")


def write_list(folder: Path, file: Path, *, header: str = "path,class\n", absolute: bool = False) -> Path:
    """All images of class folders, in any order."""
    paths = sorted(folder.rglob("*.png"))
    random.Random(0).shuffle(paths)
    places = [path if absolute else path.relative_to(file.parent) for path in paths]
    lines = [f"{place},{path.parent.name}\n" for place, path in zip(places, paths, strict=True)]
    file.write_text(header + "".join(lines))
    return file


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("header", ["", "path,class\n", "file, label\n"])
def test_a_list_is_what_its_folders_are(folder: Path, header: str, absolute: bool) -> None:
    found = find_source(write_list(folder, folder.parent / "labels.csv", header=header, absolute=absolute))
    folders = find_source(folder)
    assert folders == scan_source(folder)
    assert (found.classes, found.paths, found.class_numbers) == (folders.classes, folders.paths, folders.class_numbers)
    assert torch.equal(found.labels, torch.arange(len(CLASSES)).repeat_interleave(4))


def test_a_list_to_score_has_the_numbers_of_the_source(folder: Path) -> None:
    file = folder.parent / "labels.csv"
    file.write_text("photos/owl/2.png,owl\nphotos/owl/2.png,owl\nphotos/cat/0.png, Cat \n".replace(" Cat ", "cat"))
    found = find_labelled(file, ("cat", "dog", "hen", "owl"))
    assert [(path.name, number) for path, number in zip(found.paths, found.class_numbers, strict=True)] == [
        ("0.png", 0),
        ("2.png", 3),
    ]
    with pytest.raises(DataError, match=r"line 3.*'cat'"):
        find_labelled(file, ("dog", "owl"))


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("photos/cat/0.png,cat\nphotos/cat/3.png,cat\n", ["1 class only", "cat"]),
        ("photos/cat/0.png,cat\nphotos/dog/99.png,dog\n", ["line 2", "photos/dog/99.png"]),
        ("photos/cat/0.png,cat\nphotos/dog,dog\n", ["line 2", "photos/dog"]),
        ("photos/cat/0.png,cat\nphotos/cat/../cat/0.png,dog\n", ["line 2", "'dog'", "'cat' in line 1"]),
        ("class,path\ncat,photos/cat/0.png\n", ["line 1", "class,path", "path,class"]),
        ("photos/cat/0.png\n", ["line 1", "1 column"]),
        ("photos/cat/0.png,cat\nphotos/cat/3.png,Cat\n", ["'Cat'", "'cat'"]),
        ("path,class\n", ["names no image"]),
    ],
)
def test_lists_that_cannot_be_meant_are_refused(folder: Path, lines: str, words: list[str]) -> None:
    file = folder.parent / "labels.csv"
    file.write_text(lines)
    with pytest.raises(DataError) as error:
        find_source(file)
    assert [word for word in (str(file), *words) if word not in str(error.value)] == []


def test_another_kind_of_file_is_no_list(folder: Path) -> None:
    (folder.parent / "photos.zip").write_bytes(b"PK\x03\x04")
    for find in (find_source, lambda place: find_labelled(place, CLASSES)):
        with pytest.raises(DataError, match=r"photos\.zip"):
            find(folder.parent / "photos.zip")
