"""The commands as a person uses them: what is printed, what is written, exit codes."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest
import torch
from rich.console import Console

from residapt.cli import evaluate
from residapt.cli.evaluate import frequent_confusions
from residapt.deploy.evaluate import score_logits
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
        (["export", "nowhere", "--format", "tflite"], "'nowhere' does not exist"),
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


@pytest.fixture
def full_disk() -> Iterator[None]:
    """Files end at 20 kB, as on a disk without room."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("form", ["state-dict", "safetensors", "torch-export", "onnx"])
def test_a_full_disk_ends_an_export_with_one_message(run: RunDirectory, full_disk: None, form: str) -> None:
    if form == "onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
    before = sorted(run.path.rglob("*"))
    code, text = invoke("export", str(run.path), "-f", form)
    assert code == 2, text
    assert str(run.path / "target") in text
    assert len(text.strip().splitlines()) == 1
    assert sorted(run.path.rglob("*")) == before, "nothing half written stays"


@pytest.mark.parametrize("command", ["predict", "eval"])
def test_a_full_disk_ends_a_command_with_one_message(
    run: RunDirectory, tmp_path: Path, draw: Draw, full_disk: None, command: str
) -> None:
    for seed in range(1 if command == "eval" else 12):
        draw(tmp_path / "labelled" / "cat" / f"{'long ' * 35}{seed}.png", seed)
    out = tmp_path / "rows" / "out.csv"
    resource = pytest.importorskip("resource")
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    code, text = invoke(command, str(run.path), str(tmp_path / "labelled"), "-o", str(out), "--device", "cpu")
    assert code == 2, text
    assert str(out) in text
    assert list(out.parent.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_rows_on_a_full_disk(run: RunDirectory, labelled: Path) -> None:
    """In a process of its own, since the end of the process writes the buffer once more."""
    arguments = [sys.executable, "-m", "residapt", "predict", str(run.path), str(labelled), "--device", "cpu"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(arguments, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_confusion_matrix_has_the_names_of_the_classes(
    run: RunDirectory, labelled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, text = invoke("eval", str(run.path), str(labelled), "--device", "cpu")
    assert code == 0, text
    (head,) = [line for line in text.splitlines() if "true class" in line]
    assert all(name in head for name in CLASSES)


def test_a_matrix_that_is_too_wide_gives_way_to_the_most_frequent_confusions() -> None:
    names = tuple(f"a class with a long name {place}" for place in range(9))
    labels = torch.arange(90) % 9
    logits = torch.nn.functional.one_hot(labels, 9).float()
    logits[:5] = torch.nn.functional.one_hot(torch.tensor([3] * 5), 9).float()
    scores = score_logits(logits, labels, names)
    table = frequent_confusions(scores)
    cells = [list(column.cells) for column in table.columns]
    assert set(zip(*cells, strict=True)) == {(names[true], names[3], "1") for true in (0, 1, 2, 4)}
    text = io.StringIO()
    with mock.patch.object(evaluate, "console", Console(file=text, width=80)):
        evaluate.show_scores(scores)
    assert "predicted as" in text.getvalue()
    assert f"{100 * scores.calibration.error:.1f} %" in text.getvalue()
