"""The commands as a person uses them: what is printed, what is written, exit codes."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from residapt.storage.run_directory import RunDirectory
from support.cli import invoke
from support.small_run import CLASSES

Draw = Callable[..., Path]


@pytest.fixture
def labelled(tmp_path: Path, draw: Draw) -> Path:
    for seed, name in enumerate(["cat/1.png", "dog/1.png", "dog/2.png"]):
        draw(tmp_path / "labelled" / name, seed)
    return tmp_path / "labelled"


def test_predict_writes_a_file(run: RunDirectory, labelled: Path, tmp_path: Path) -> None:
    (labelled / "cat" / "bad.jpg").touch()
    code, text = invoke("predict", str(run.path), str(labelled), "-o", str(tmp_path / "p.csv"), "--device", "cpu")
    assert code == 0, text
    assert "left out: cat/bad.jpg: it is empty" in text
    assert "1 file(s) could not be read" in text
    assert "3 images predicted" in text
    with (tmp_path / "p.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["path"] for row in rows] == ["cat/1.png", "dog/1.png", "dog/2.png"]
    assert {row["class"] for row in rows} <= set(CLASSES)


def test_predict_prints_rows(run: RunDirectory, labelled: Path) -> None:
    code, text = invoke("predict", str(run.path), str(labelled), "--format", "jsonl", "--device", "cpu")
    assert code == 0, text
    assert json.loads(text.splitlines()[0])["path"] == "cat/1.png"


def test_eval_prints_and_writes(run: RunDirectory, labelled: Path, tmp_path: Path) -> None:
    out = tmp_path / "scores.json"
    code, text = invoke("eval", str(run.path), str(labelled), "-o", str(out), "--device", "cpu")
    assert code == 0, text
    scores = json.loads(out.read_text())
    assert f"accuracy {scores['accuracy']:.2f} % on 3 images" in text
    assert "not known whether they were seen" in text
    assert "Confusion matrix" in text
    assert "<i>co</i>" in text
    assert [row["images"] for row in scores["classes"]] == [1, 2, 0]


def test_export_and_inspect(run: RunDirectory) -> None:
    code, text = invoke("export", str(run.path), "--format", "state-dict")
    assert code == 0, text
    assert (run.path / "target.pth").is_file()
    assert "the same tensors" in text
    code, text = invoke("inspect", str(run.path))
    assert code == 0, text
    for piece in (
        "lenet",
        "conv1",
        "500 x 800",
        "[3, 2]",
        "[0, 0]",
        "Ranks are [l, r]",
        "target.pth",
        "model.safetensors",
        "MB",
    ):
        assert piece in text, piece


@pytest.mark.parametrize("command", ["predict", "eval", "export"])
def test_existing_outputs_are_refused_before_any_work(run: RunDirectory, labelled: Path, command: str) -> None:
    out = run.path.parent / {"predict": "p.csv", "eval": "s.json", "export": "m.onnx"}[command]
    out.write_text("precious")
    images = [] if command == "export" else [str(labelled)]
    run.model.unlink()  # loading would fail, with another message
    code, text = invoke(command, str(run.path), *images, "-o", str(out))
    assert code == 2
    assert "exists already" in text
    assert out.read_text() == "precious"


@pytest.mark.parametrize("command", ["predict", "eval", "export"])
def test_places_that_cannot_be_written(run: RunDirectory, labelled: Path, tmp_path: Path, command: str) -> None:
    (tmp_path / "file").write_text("")
    images = [] if command == "export" else [str(labelled)]
    options = ["--format", "state-dict"] if command == "export" else ["--device", "cpu"]
    code, text = invoke(command, str(run.path), *images, *options, "-o", str(tmp_path / "file" / "out.pth"))
    assert code == 2, text
    assert "cannot be written: there is a file where a folder has to be" in text
    assert "Traceback" not in text


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_folder(run: RunDirectory, labelled: Path, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    code, text = invoke("predict", str(run.path), str(labelled), "-o", str(tmp_path / "locked" / "p.csv"))
    assert code == 2
    assert "Permission denied" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "nowhere", "images"], "'nowhere' does not exist"),
        (["inspect", "nowhere"], "'nowhere' does not exist"),
        (["export", "nowhere", "--format", "tflite"], "--format must be one of onnx"),
        (["predict", "nowhere", "images", "--format", "xml"], "--format must be csv or jsonl, got 'xml'"),
    ],
)
def test_mistakes_end_with_code_2_and_one_message(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, text = invoke(*arguments)
    assert code == 2
    assert message in text
    assert "Traceback" not in text


@pytest.mark.parametrize("command", ["predict", "eval", "export", "inspect"])
def test_help_has_an_example(command: str) -> None:
    code, text = invoke(command, "--help")
    assert code == 0
    assert f"Example: residapt {command} run/" in text
