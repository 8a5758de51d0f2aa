"""Label files: what can be meant is understood, everything else is refused with its line."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from residapt.data.labelled_files import check_labels
from residapt.data.labelled_target import (
    NAME,
    check_unchanged,
    label_records_of,
    open_few,
    read_label_records,
    same_images,
    with_few,
    write_label_records,
)
from residapt.data.labels_csv import read_label_file
from residapt.data.sources import Reading, open_target
from residapt.errors import DataError
from residapt.models import InputSpec

CLASSES = ("cat", "dog", "great owl")
READING = Reading(InputSpec(size=8, channels=1, mean=(0.5,), std=(0.5,)), augment=False)


def draw(path: Path, seed: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (9, 9), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Six images, one of them with a comma and quotes in its name."""
    folder = tmp_path / "target"
    for seed, name in enumerate(("1.png", "2.png", "3.png", "deep/4.png", 'deep/5, "b".png', "ö.png")):
        draw(folder / name, seed)
    return folder


@pytest.fixture
def read(target: Path, tmp_path: Path) -> Callable[[str | bytes], list[tuple[int, str, str]]]:
    def reader(content: str | bytes) -> list[tuple[int, str, str]]:
        file = tmp_path / "few.csv"
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        lines = read_label_file(file, target, CLASSES)
        return [(line.number, line.path.relative_to(target).as_posix(), CLASSES[line.label]) for line in lines]

    return reader


Read = Callable[[str | bytes], list[tuple[int, str, str]]]


@pytest.mark.parametrize("header", ["", "path,class\n", "Path, Class\n", "image,label\n", "\ufeffpath,class\n", "\n\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_header_blank_lines_and_line_ends_are_understood(read: Read, header: str, end: str) -> None:
    first = header.count("\n") + 1
    text = f"{header}1.png,cat\n\n deep/4.png , great owl \nö.png,dog"
    assert read(text.replace("\n", end)) == [
        (first, "1.png", "cat"),
        (first + 2, "deep/4.png", "great owl"),
        (first + 3, "ö.png", "dog"),
    ]


def test_names_with_commas_and_quotes(read: Read) -> None:
    assert read('"deep/5, ""b"".png",cat\n') == [(1, 'deep/5, "b".png', "cat")]


def test_paths_from_the_target_the_file_the_root_and_through_links(read: Read, target: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(target)
    rows = ["deep/../1.png,cat", "target/2.png,cat", f"{target}/3.png,dog", f"{tmp_path}/link/deep/4.png,dog"]
    assert [name for _, name, _ in read("\n".join(rows))] == ["1.png", "2.png", "3.png", "deep/4.png"]


def test_an_image_of_the_target_that_is_a_link(read: Read, target: Path, tmp_path: Path) -> None:
    """A target may be made of links; what they lead to is an image of the target by either name."""
    draw(tmp_path / "store" / "x.png", 50)
    (target / "x.png").symlink_to(tmp_path / "store" / "x.png")
    assert read("x.png,cat\n") == [(1, "x.png", "cat")]
    assert read(f"{tmp_path}/store/x.png,cat\n") == [(1, "x.png", "cat")]


def test_the_same_line_twice_counts_once(read: Read) -> None:
    assert read("1.png,cat\n2.png,dog\n./1.png,cat\n") == [(1, "1.png", "cat"), (2, "2.png", "dog")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("path,class\n1.png,cat\n2.png,dgo\n", r"line 3: 'dgo' is not a class of the source. Did you mean 'dog'\?"),
        ("1.png,CAT\n", r"line 1: 'CAT' is not a class of the source. Did you mean 'cat'\?"),
        ("1.png,zebra\n", r"line 1: 'zebra' is not a class of the source. Classes: cat, dog, great owl\."),
        ("1.png,cat\nnone.png,cat\n", r"line 2: image 'none.png' is not in the target folder"),
        ("1.png,cat\n\n2.png,cat\n1.png,dog\n", r"line 4: '1.png' is 'dog' here, but 'cat' in line 1"),
        ("1.png,cat\n../outside.png,cat\n", r"line 2: image '../outside.png' lies outside the target folder"),
        ("few.csv,cat\n", r"line 1: 'few.csv' is not an image"),
        ("deep,cat\n", r"line 1: 'deep' is not an image"),
        ("1.png\n", r"line 1: 1 column instead of 2"),
        ("1.png,cat,0.9\n", r"line 1: 3 columns instead of 2"),
        ("1.png;cat\n", r"line 1: 1 column instead of 2"),
        ("1.png,\n", r"line 1: the class is empty"),
        (" ,cat\n", r"line 1: the path is empty"),
        ("", r"names no image"),
        ("path,class\n\n", r"names no image"),
        (b"1.png,cat\n2.png,d\xf6g\n", r"line 2 is not UTF-8 \(byte 0xf6\)"),
        (b"\xef\xbb\xbf1.png,cat\n\n\xff\n", r"line 3 is not UTF-8"),
        ("1.png,cat\n".encode("utf-16"), r"line 1 is not UTF-8"),
        ('1.png,cat\n"2.png,dog\n', r"line 2 is not CSV"),
        (b"1.png,cat\n2\x00.png,dog\n", r"line 2"),
        ("x" * 5000 + ".png,cat\n", r"line 1: image 'x{100}\.\.\.' is not in the target folder"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(read: Read, tmp_path: Path, content: str | bytes, message: str) -> None:
    draw(tmp_path / "outside.png", 9)
    with pytest.raises(DataError, match=message):
        read(content)


def test_files_that_are_none(target: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.csv'"):
        read_label_file(tmp_path / "none.csv", target, CLASSES)
    with pytest.raises(DataError, match=re.escape(str(tmp_path))):
        read_label_file(tmp_path, target, CLASSES)
    if os.geteuid() != 0:
        (tmp_path / "locked.csv").touch(mode=0o000)
        with pytest.raises(DataError, match="cannot be read"):
            read_label_file(tmp_path / "locked.csv", target, CLASSES)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(
    content=st.one_of(st.binary(max_size=60), st.text(alphabet='1.png,cato/"\n\r\0;é ', max_size=40).map(str.encode))
)
def test_no_content_whatever_ends_in_anything_but_a_message(read: Read, content: bytes) -> None:
    with suppress(DataError):
        assert read(content)


def few_csv(tmp_path: Path, *rows: str) -> Path:
    file = tmp_path / "few.csv"
    file.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return file


def test_the_images_are_opened_with_their_classes(target: Path, tmp_path: Path) -> None:
    opened = open_few(few_csv(tmp_path, "3.png,dog", "1.png,cat"), target, READING, CLASSES)
    assert opened.labels.tolist() == [1, 0]
    assert opened.images.names == ("3.png", "1.png")
    unlabelled = open_target(target, READING)
    index = torch.tensor([unlabelled.names.index("3.png"), unlabelled.names.index("1.png")])
    generator = torch.Generator()
    expected = unlabelled.plain.fetch(index, generator)
    assert torch.equal(opened.images.plain.fetch(torch.arange(2), generator), expected)
    assert "no labelled target image shows great owl" in opened.images.notes[0]


@pytest.mark.parametrize("broken", [("2.png",), ("1.png", "2.png")])
def test_an_unreadable_image_is_refused_with_its_line(target: Path, tmp_path: Path, broken: tuple[str, ...]) -> None:
    for name in broken:
        (target / name).write_bytes(b"no picture")
    file = few_csv(tmp_path, "path,class", "3.png,cat", "2.png,dog", "1.png,cat")
    with pytest.raises(DataError, match=r"few\.csv', line 3.*2\.png'"):
        open_few(file, target, READING, CLASSES)


def test_copies_with_two_classes_are_refused(target: Path, tmp_path: Path) -> None:
    draw(target / "copy.png", 0)
    file = few_csv(tmp_path, "1.png,cat", "copy.png,dog")
    with pytest.raises(DataError, match=r"line 2 of '.*few\.csv'.*line 1 .*'dog'"):
        open_few(file, target, READING, CLASSES)
    opened = open_few(few_csv(tmp_path, "1.png,cat", "copy.png,cat"), target, READING, CLASSES)
    assert len(opened.images) == 2


def test_class_folders_inside_and_outside_the_target(target: Path, tmp_path: Path) -> None:
    draw(tmp_path / "few" / "cat" / "new.png", 77)
    draw(tmp_path / "few" / "dog" / "copy of 2.png", 1)
    opened = open_few(tmp_path / "few", target, READING, CLASSES)
    unlabelled = open_target(target, READING)
    assert same_images(unlabelled, opened.images).tolist() == [name == "2.png" for name in unlabelled.names]
    pool = with_few(unlabelled, opened.images)
    assert len(pool) == len(unlabelled) + 1, "the labelled image that is not in the target folder joins it, once"
    index = torch.tensor([6, 0, 6, 3])
    fetched = pool.fetch(index, torch.Generator())
    generator = torch.Generator()
    new, first, third = (
        opened.images.plain.fetch(torch.tensor([0]), generator),
        unlabelled.plain.fetch(torch.tensor([0]), generator),
        unlabelled.plain.fetch(torch.tensor([3]), generator),
    )
    assert torch.equal(fetched, torch.cat([new, first, new, third]))
    inside = open_few(few_csv(tmp_path, "1.png,cat"), target, READING, CLASSES)
    assert with_few(unlabelled, inside.images) is unlabelled.train


def test_data_in_memory(target: Path) -> None:
    images, labels = torch.rand(4, 1, 8, 8), torch.tensor([0, 1, 2, 0])
    opened = open_few((images, labels), None, READING, CLASSES)
    assert torch.equal(opened.labels, labels)
    assert same_images(
        open_target(torch.cat([torch.rand(1, 1, 8, 8), images[2:3]]), READING), opened.images
    ).tolist() == [
        False,
        True,
    ]
    with pytest.raises(DataError, match=f"{NAME}: label 3"):
        open_few((images, labels + 1), None, READING, CLASSES)
    with pytest.raises(DataError, match=r"image 3 .*image 0 "):
        open_few((images[[0, 1, 2, 0]], torch.tensor([0, 1, 2, 1])), None, READING, CLASSES)


def test_a_label_file_needs_a_target_folder(target: Path, tmp_path: Path) -> None:
    file = few_csv(tmp_path, "1.png,cat")
    check_labels(file, target, CLASSES)
    check_labels((torch.rand(1), torch.zeros(1)), None, CLASSES)
    with pytest.raises(DataError, match="Tensor"):
        check_labels(file, torch.rand(3, 1, 8, 8), CLASSES)


def test_the_record_of_a_run(target: Path, tmp_path: Path) -> None:
    """Written and read; a change of class, of content, and of the list is told."""
    opened = open_few(few_csv(tmp_path, "1.png,cat", "2.png,dog", '"deep/5, ""b"".png",dog'), target, READING, CLASSES)
    records, path = label_records_of(opened), tmp_path / "labelled.csv"
    assert read_label_records(path) == label_records_of(None) == ()
    write_label_records(records, path)
    assert read_label_records(path) == records
    check_unchanged(records[::-1], path)

    def again(*rows: str) -> None:
        check_unchanged(label_records_of(open_few(few_csv(tmp_path, *rows), target, READING, CLASSES)), path)

    rest = '"deep/5, ""b"".png",dog'
    with pytest.raises(DataError, match=r"\b3\b.*\b2\b.*'2\.png'"):
        again("1.png,cat", rest)
    with pytest.raises(DataError, match=r"'2\.png'.*'dog'.*'cat'"):
        again("1.png,cat", "2.png,cat", rest)
    with pytest.raises(DataError, match=r"'3\.png'"):
        again("1.png,cat", "2.png,dog", rest, "3.png,cat")
    draw(target / "1.png", 99)
    with pytest.raises(DataError, match=r"'1\.png'"):
        again("1.png,cat", "2.png,dog", rest)
    for content in ("", "a,b\n", "path,class,bytes,sha256\n1.png,cat,many,ab\n", "path,class,bytes,sha256\n1\n"):
        path.write_text(content)
        with pytest.raises(DataError, match="cannot be read"):
            read_label_records(path)
