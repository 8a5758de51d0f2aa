"""A few labelled target images, from the command line to the report: trained on, and never scored."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image

import residapt
from residapt.config import load_config
from residapt.data.imageset import ImageSet
from residapt.data.synthetic import handwritten_digits, printed_digits
from residapt.errors import DataError
from residapt.run import stages
from residapt.storage.summary import RunSummary, read_summary
from residapt.train import Callback, Trainer
from support.cli import invoke
from support.digit_folders import QUICK
from support.methods import FOR_ANY_NETWORK

CLASSES = ("other", "three")


def kind(label: int) -> str:
    return "three" if label == 3 else "other"


def save(images: ImageSet, folder: Path, *, classes: bool) -> list[tuple[Path, str]]:
    rows = []
    for number, (pixels, label) in enumerate(zip(images.images, images.labels.tolist(), strict=True)):
        path = (folder / kind(label) if classes else folder) / f"{number:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels[0].numpy()).save(path)
        rows.append((path, kind(label)))
    return rows


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Find the threes: printed digits, 60 written ones with 12 labels, 80 to score among which 5 of the labelled."""
    root = tmp_path_factory.mktemp("threes")
    written = handwritten_digits()
    save(printed_digits(120), root / "source", classes=True)
    target = save(written.subset(range(60)), root / "target", classes=False)
    lines = [f"{path.name},{name}\n" for path, name in target[:12]]
    (root / "few.csv").write_text("path,class\n" + "".join(lines))
    save(written.subset(range(60, 135)), root / "scored", classes=True)
    for path, name in target[:5]:
        shutil.copy(path, root / "scored" / name / f"copy {path.name}")
    return root


def arguments(world: Path, out: Path, *more: str) -> tuple[str, ...]:
    return (
        *("adapt", "-s", str(world / "source"), "-t", str(world / "target"), "-o", str(out), "--force", *QUICK),
        *("--target-labels", str(world / "few.csv"), "--evaluate", str(world / "scored"), *more),
    )


@pytest.fixture(scope="module")
def run(world: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("run") / "run"
    code, text = invoke(*arguments(world, out, "--set", 'data.balance="classes"', "--set", "train.few_batch=6"))
    assert code == 0, text
    return out, " ".join(text.split())


@pytest.fixture(scope="module")
def summary(run: tuple[Path, str]) -> RunSummary:
    return read_summary(run[0] / "summary.json")


def test_the_labels_are_trained_on(run: tuple[Path, str], world: Path) -> None:
    lines = [json.loads(line) for line in (run[0] / "metrics.jsonl").read_text().splitlines()]
    steps = [line["values"] for line in lines if line["kind"] == "step" and line["stage"] == "adapt"]
    assert steps
    assert all("target_class" in values for values in steps)
    config = load_config(run[0] / "config.toml")
    assert config.data.target_labels == str(world / "few.csv")
    assert config.data.balance == "classes"
    recorded = (run[0] / "labelled.csv").read_text().splitlines()
    assert len(recorded) == 13
    assert [row.split(",")[:2] for row in recorded] == [
        row.split(",") for row in (world / "few.csv").read_text().splitlines()
    ]


def test_labelled_images_are_left_out_of_the_score(run: tuple[Path, str], summary: RunSummary) -> None:
    assert "5 of the 80 images to score are among the labelled target images" in run[1]
    assert {one.images for one in summary.accuracies} == {75}
    assert {one.protocol for one in summary.accuracies} == {"held-out"}
    assert summary.labelled_images == 12
    assert summary.target_images == 60


def test_average_precision_is_in_the_summary_and_on_the_screen(run: tuple[Path, str], summary: RunSummary) -> None:
    assert [one.stage for one in summary.detections] == ["source_only", "adapted"]
    for one in summary.detections:
        assert one.detection.positive == "three", "the rarer class"
        assert one.detection.positives + one.detection.negatives == 75
        assert one.detection.curve[-1].recall == 1.0
    shown = f"{summary.detections[1].detection.average_precision:.3f} adapted"
    assert shown in run[1]
    page = (run[0] / "report.html").read_text()
    assert 'id="detection"' in page
    assert "12 of the target labelled" in page


def test_eval_of_the_run_says_the_same(run: tuple[Path, str], world: Path, summary: RunSummary, tmp_path: Path) -> None:
    out = tmp_path / "scores.json"
    code, text = invoke("eval", str(run[0]), str(world / "scored"), "-o", str(out), "--device", "cpu")
    assert code == 0, text
    scores = json.loads(out.read_text())
    assert scores["left_out"] == 5
    assert scores["images"] == 75
    assert "5 images are left out: the run has trained on their labels" in text
    adapted = summary.detections[1].detection
    assert scores["detection"]["average_precision"] == pytest.approx(adapted.average_precision, abs=1e-6)
    assert "of 'three'" in text
    code, text = invoke("eval", str(run[0]), str(world / "scored"), "--positive", "other", "--device", "cpu")
    assert code == 0, text
    assert "of 'other'" in text
    code, text = invoke("eval", str(run[0]), str(world / "scored"), "--positive", "thre", "--device", "cpu")
    assert code == 2
    assert "Did you mean 'three'?" in text


class Stop(Callback):
    """Ask for the end at a step, as a signal would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_settled(self, trainer: Trainer) -> None:
        if trainer.step == self.step:
            trainer.request_stop()


def test_resuming_checks_the_label_file(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = tmp_path / "few.csv"
    labels.write_text((world / "few.csv").read_text())
    out, real = tmp_path / "run", stages._listeners
    with monkeypatch.context() as patch:
        patch.setattr(
            stages, "_listeners", lambda plan, run, name: [*real(plan, run, name), *([Stop(10)] * (name == "adapt"))]
        )
        code, text = invoke(*arguments(world, out, "--target-labels", str(labels)))
    assert code not in (0, 2), text
    whole = labels.read_text()
    labels.write_text(whole.replace("003.png,three", "003.png,other"))
    assert labels.read_text() != whole, "the test needs a label to change"
    code, text = invoke("adapt", "--resume", str(out))
    assert code == 2
    assert "target_labels have changed since this run was begun" in text
    assert "'003.png' was 'three' and is 'other'" in text
    labels.write_text(whole.replace("path,class\n", ""))  # the same labels, written in another way
    code, text = invoke("adapt", "--resume", str(out))
    assert code == 0, text
    assert read_summary(out / "summary.json").labelled_images == 12


def tensors() -> dict[str, object]:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(60, 1, 8, 8, generator=generator)
    labels = torch.arange(60) % 3
    return {"source": (images[:24], labels[:24]), "target": images[24:40], "labels": labels, "images": images}


def small() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))


SHORT = {"steps": 3, "train_source_first": False, "device": "cpu", "train": {"batch_size": 4}}


@pytest.mark.parametrize("name", FOR_ANY_NETWORK)
def test_every_method_from_the_library(name: str) -> None:
    """Labels given as tensors; the labelled images that are not in the target join it, and none of them is scored."""
    data = tensors()
    few = (data["images"][36:44], data["labels"][36:44])  # four are in the target, four are new
    run = residapt.adapt(
        small(), source=data["source"], target=data["target"], target_labels=few, method=name, force=True, **SHORT
    )
    assert len(run.setup.pair.target) == 16 + 4
    assert run.setup.unlabelled.tolist() == list(range(12))
    assert run.setup.pair.few is not None
    assert run.summary.labelled_images == 8


def test_scored_images_that_are_all_labelled_are_refused() -> None:
    data = tensors()
    few = (data["images"][30:36], data["labels"][30:36])
    with pytest.raises(DataError, match=r"\b6\b"):
        residapt.adapt(small(), source=data["source"], target=data["target"], target_labels=few, evaluate=few, **SHORT)


def test_a_target_that_is_labelled_throughout_is_noted() -> None:
    data = tensors()
    few = (data["target"], data["labels"][24:40])
    run = residapt.adapt(
        small(), source=data["source"], target=data["target"], target_labels=few, method="fine_tune", **SHORT
    )
    assert any("all 16 target images have labels" in note for note in run.summary.notes)


def test_labelled_images_of_another_shape_are_refused() -> None:
    data = tensors()
    with pytest.raises(DataError, match=r"target_labels.*\(1, 9, 9\).*\(1, 8, 8\)"):
        residapt.adapt(
            small(),
            source=data["source"],
            target=data["target"],
            target_labels=(torch.rand(3, 1, 9, 9), torch.arange(3)),
            **SHORT,
        )


def test_methods_that_live_on_labels_ask_for_them(world: Path, tmp_path: Path) -> None:
    for name in ("fine_tune", "pooled"):
        code, text = invoke(
            *("adapt", "-s", str(world / "source"), "-t", str(world / "target"), "-o", str(tmp_path / "run")),
            *("--method", name, *QUICK),
        )
        assert code == 2
        assert "Give some with --target-labels" in text
    assert not (tmp_path / "run").exists()
