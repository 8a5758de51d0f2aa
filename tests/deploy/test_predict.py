"""Predictions of folders: the same as image by image, for all that people keep in folders."""

from __future__ import annotations

import csv
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from residapt.data.decode import decode_image
from residapt.deploy import DeployedModel, Prediction, UnreadableImage, load_run, predict_folder, write_predictions
from residapt.deploy import images as batching
from residapt.errors import ConfigError, DataError
from residapt.storage.run_directory import RunDirectory
from support.small_run import CLASSES

Draw = Callable[..., Path]


@pytest.fixture
def deployed(run: RunDirectory) -> DeployedModel:
    return load_run(run.path)


@pytest.fixture
def folder(tmp_path: Path, draw: Draw) -> Path:
    for seed, name in enumerate(["b/2.png", "a.jpg", "b/c/1.JPEG", "z.webp", ".hidden.png", "b/10.bmp"]):
        draw(tmp_path / "images" / name, seed)
    (tmp_path / "images" / "notes.txt").write_text("no image")
    return tmp_path / "images"


def one_by_one(deployed: DeployedModel, folder: Path, names: list[str]) -> Iterator[tuple[str, str, float]]:
    for name in names:
        pixels = decode_image(folder / name, size=28, channels=1)
        with torch.no_grad():
            logits = deployed.model((pixels[None].float() / 255 - 0.4) / 0.2)[0].double()
        shares = [float(torch.exp(v)) for v in logits]
        best = max(range(3), key=shares.__getitem__)
        yield name, CLASSES[best], shares[best] / sum(shares)


@pytest.mark.parametrize("batch_size", [1, 2, 5, 64])
def test_same_as_one_by_one_in_sorted_order(deployed: DeployedModel, folder: Path, batch_size: int) -> None:
    rows = list(predict_folder(deployed, folder, batch_size=batch_size))
    expected = list(one_by_one(deployed, folder, ["a.jpg", "b/10.bmp", "b/2.png", "b/c/1.JPEG", "z.webp"]))
    assert [(row.path, row.label) for row in rows if isinstance(row, Prediction)] == [e[:2] for e in expected]
    for row, (_, _, probability) in zip(rows, expected, strict=True):
        assert isinstance(row, Prediction)
        assert row.probability == pytest.approx(probability, abs=1e-5)
    assert len({row.label for row in rows if isinstance(row, Prediction)}) > 1


def test_one_image(deployed: DeployedModel, folder: Path) -> None:
    (row,) = predict_folder(deployed, folder / "a.jpg")
    assert row.path == "a.jpg"


def test_progress(deployed: DeployedModel, folder: Path) -> None:
    seen: list[tuple[int, int]] = []
    list(predict_folder(deployed, folder, batch_size=2, on_images=lambda *counts: seen.append(counts)))
    assert seen == [(2, 5), (4, 5), (5, 5)]


def test_unreadable_images_are_listed_and_the_others_predicted(deployed: DeployedModel, folder: Path) -> None:
    (folder / "broken.jpg").write_bytes((folder / "a.jpg").read_bytes()[:300])
    (folder / "empty.png").touch()
    rows = list(predict_folder(deployed, folder, batch_size=3))
    bad = {row.path: row.reason for row in rows if isinstance(row, UnreadableImage)}
    assert list(bad) == ["broken.jpg", "empty.png"]
    assert bad["empty.png"] == "it is empty"
    assert sum(isinstance(row, Prediction) for row in rows) == 5


def test_csv_and_jsonl_hold_the_same_rows(deployed: DeployedModel, folder: Path, tmp_path: Path) -> None:
    count = write_predictions(predict_folder(deployed, folder), tmp_path / "p.csv")
    write_predictions(predict_folder(deployed, folder), tmp_path / "p.jsonl")
    with (tmp_path / "p.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert list(rows[0]) == ["path", "class", "probability"]
    assert [{**row, "probability": float(row["probability"])} for row in rows] == lines
    assert (count.images, count.unreadable) == (5, ())
    assert all(1 / 3 <= line["probability"] <= 1 for line in lines)


NAMES = ["a,b.png", 'quo"te.png', "new\nline.png", "<script>alert(1)</script>.png", "=1+1.png", "жук 犬.png"]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_strange_file_names_come_back(deployed: DeployedModel, draw: Draw, tmp_path: Path, form: str) -> None:
    root = tmp_path / "images"
    for seed, name in enumerate(NAMES):
        draw(root / name.replace("/", "_"), seed)
    written = {name.replace("/", "_") for name in NAMES}
    out = tmp_path / f"p.{form}"
    write_predictions(predict_folder(deployed, root), out)
    with out.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file) if form == "csv" else map(json.loads, file)
        assert {row["path"] for row in rows} == written


def test_file_names_that_are_not_utf8(deployed: DeployedModel, draw: Draw, tmp_path: Path) -> None:
    root = tmp_path / "images"
    draw(root / "a.png")
    try:
        os.rename(root / "a.png", os.fsencode(root) + b"/\xff\xfe.png")
    except OSError:
        pytest.skip("this file system takes UTF-8 only")
    write_predictions(predict_folder(deployed, root), tmp_path / "p.csv")
    assert b"\n\xff\xfe.png," in (tmp_path / "p.csv").read_bytes()
    write_predictions(predict_folder(deployed, root), tmp_path / "p.jsonl")
    assert os.fsencode(json.loads((tmp_path / "p.jsonl").read_text())["path"]) == b"\xff\xfe.png"


def test_nothing_readable_is_refused_and_leaves_no_file(deployed: DeployedModel, tmp_path: Path) -> None:
    root = tmp_path / "images"
    root.mkdir()
    (root / "x.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"'x\.png'"):
        write_predictions(predict_folder(deployed, root), tmp_path / "out" / "p.csv")
    assert os.listdir(tmp_path / "out") == []


def test_folder_without_images(deployed: DeployedModel, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no images at any depth"):
        list(predict_folder(deployed, tmp_path / "run"))
    with pytest.raises(DataError, match="nowhere"):
        list(predict_folder(deployed, tmp_path / "nowhere"))


def test_batch_size_must_be_positive(deployed: DeployedModel, folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"\b0\b"):
        list(predict_folder(deployed, folder, batch_size=0))


def test_at_most_two_batches_are_decoded_ahead(
    deployed: DeployedModel, draw: Draw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(12):
        draw(tmp_path / "many" / f"{seed:02}.png", seed)
    decoded, lock = 0, threading.Lock()

    def count(*arguments: object, **settings: object) -> torch.Tensor:
        nonlocal decoded
        with lock:
            decoded += 1
        return decode_image(*arguments, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(batching, "decode_image", count)
    most = 0
    for used, _ in enumerate(predict_folder(deployed, tmp_path / "many", batch_size=2)):
        most = max(most, decoded - used)
    assert decoded == 12
    assert most <= 4


def test_existing_output(deployed: DeployedModel, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "p.csv"
    out.write_text("precious")
    with pytest.raises(ConfigError, match="--overwrite"):
        write_predictions(predict_folder(deployed, folder), out)
    assert out.read_text() == "precious"
    write_predictions(predict_folder(deployed, folder), out, overwrite=True)
    assert out.read_text().startswith("path,class,probability\n")


def test_failure_half_way_keeps_the_old_file(tmp_path: Path) -> None:
    out = tmp_path / "p.csv"
    out.write_text("precious")

    def rows() -> Iterator[Prediction]:
        yield Prediction("a", "cat", 1.0)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_predictions(rows(), out, overwrite=True)
    assert out.read_text() == "precious"
    assert os.listdir(tmp_path) == ["p.csv"]
