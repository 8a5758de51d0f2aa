"""adapt, predict, eval, export, inspect, report: each command on what the one before has made."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import torch

from residapt.data.decode import decode_image
from residapt.data.image_files import list_images
from residapt.deploy import load_run
from residapt.storage.summary import read_summary
from support.cli import invoke
from support.digit_folders import Run


def test_predict_and_eval_agree_with_the_run(finished: Run, digits: Path, tmp_path: Path) -> None:
    rows = tmp_path / "predictions.csv"
    code, text = invoke("predict", str(finished.path), str(digits / "scored"), "-o", str(rows), "--device", "cpu")
    assert code == 0, text
    with rows.open(encoding="utf-8", newline="") as file:
        predicted = list(csv.DictReader(file))
    assert len(predicted) == 60
    right = sum(row["path"].partition("/")[0] == row["class"] for row in predicted)
    scores = tmp_path / "scores.json"
    code, text = invoke("eval", str(finished.path), str(digits / "scored"), "-o", str(scores), "--device", "cpu")
    assert code == 0, text
    found = json.loads(scores.read_text(encoding="utf-8"))
    adapted = next(a for a in read_summary(finished.path / "summary.json").accuracies if a.stage == "adapted")
    assert found["accuracy"] == pytest.approx(100 * right / 60) == pytest.approx(adapted.percent)
    assert found["protocol"] == "held-out"


def test_the_target_itself_is_stamped(finished: Run, digits: Path, tmp_path: Path) -> None:
    labelled = tmp_path / "labelled" / "digit 0"
    labelled.mkdir(parents=True)
    first = sorted((digits / "written").rglob("*.png"))[0]
    (labelled / "copy.png").write_bytes(first.read_bytes())
    code, text = invoke("eval", str(finished.path), str(tmp_path / "labelled"), "--device", "cpu")
    assert code == 0, text
    assert "transductive" in text


@pytest.mark.parametrize("form", ["onnx", "torch-export", "safetensors", "state-dict"])
def test_export_gives_the_same_network(form: str, finished: Run, digits: Path, tmp_path: Path) -> None:
    if form == "onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
    suffix = {"onnx": ".onnx", "torch-export": ".pt2", "safetensors": ".safetensors", "state-dict": ".pth"}[form]
    path = tmp_path / f"network{suffix}"
    code, text = invoke("export", str(finished.path), "--format", form, "-o", str(path))
    assert code == 0, text
    assert path.stat().st_size > 100_000
    if form != "onnx":
        return
    import onnxruntime

    deployed = load_run(finished.path)
    pixels = torch.stack([decode_image(p, size=28, channels=1) for p in list_images(digits / "scored")[:8]])
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    floats = ((pixels.float() / 255 - 0.5) / 0.5).numpy()
    logits = torch.from_numpy(session.run(None, {session.get_inputs()[0].name: floats})[0])
    assert (logits - deployed.logits(pixels)).abs().max() < 1e-4


def test_inspect_and_report(finished: Run) -> None:
    code, text = invoke("inspect", str(finished.path))
    assert code == 0, text
    assert "conv1" in text
    code, text = invoke("report", str(finished.path))
    assert code == 0, text
    assert "report.html" in text
