"""Two folders in, a network out: the run directory of a finished run, and what can be done with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors import safe_open

from residapt.config import load_config
from residapt.data.decode import decode_image
from residapt.data.image_files import list_images
from residapt.deploy import load_run
from residapt.evaluate.predict import predict_logits
from residapt.models import build_model, load_weights
from residapt.storage import load
from residapt.storage.run_directory import RunDirectory
from residapt.storage.summary import read_summary
from support.cli import invoke
from support.digit_folders import QUICK, Run


def test_it_ends_well_and_says_what_to_do_next(finished: Run) -> None:
    assert finished.code == 0, finished.text
    assert f"Next: residapt predict {finished.path} images/" in finished.text
    assert "Accuracy on" in finished.text
    assert "60 images, held-out" in finished.text
    assert "layers differ between the domains" in finished.text
    assert "training the source network: 20 steps" in finished.text  # plain lines, no bar


def test_every_file_is_there(finished: Run) -> None:
    names = {path.name for path in finished.path.iterdir()}
    assert {
        *("config.toml", "metrics.jsonl", "summary.json", "source.safetensors", "model.safetensors"),
        *("adapter", "report.html", "tensorboard"),
    } <= names
    assert any((finished.path / "tensorboard").iterdir())
    assert (finished.path / "report.html").stat().st_size > 10_000


def test_the_report_escapes_names(finished: Run) -> None:
    page = (finished.path / "report.html").read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page


def test_the_configuration_is_whole_and_makes_the_same_run(finished: Run, tmp_path: Path) -> None:
    config = load_config(finished.path / "config.toml")
    assert config.pretrain.steps == 20
    assert config.train.steps == 20
    assert config.data.image_size == 28
    assert config.data.channels == 1
    assert Path(config.data.source or "").is_absolute()
    assert config.train.evaluate_every == 4  # chosen, and written down
    again = tmp_path / "again"
    code, text = invoke("adapt", "--config", str(finished.path / "config.toml"), "-o", str(again))
    assert code == 0, text
    assert load_config(again / "config.toml") == config
    first, second = (RunDirectory(path).model for path in (finished.path, again))
    with safe_open(first, "pt") as one, safe_open(second, "pt") as other:
        assert one.metadata() == other.metadata()
        assert all(torch.equal(one.get_tensor(name), other.get_tensor(name)) for name in one.keys())  # noqa: SIM118


def test_the_metrics_tell_both_stages(finished: Run) -> None:
    lines = [json.loads(line) for line in (finished.path / "metrics.jsonl").read_text().splitlines()]
    kinds = {(line["stage"], line["kind"]) for line in lines}
    assert {("source", "step"), ("adapt", "step"), ("adapt", "scores"), ("adapt", "accuracy")} <= kinds
    notes = [line["text"] for line in lines if line["kind"] == "note"]
    assert any("broken.jpg" in text for text in notes)
    steps = [line["step"] for line in lines if line["kind"] == "scores"]
    assert steps == [0, 4, 8, 12, 16, 20]


def test_the_summary_is_filled(finished: Run) -> None:
    summary = read_summary(finished.path / "summary.json")
    assert summary.classes == tuple(f"digit {n}" for n in range(10))
    assert summary.source_images == 200
    assert [(one.stage, sum(map(sum, one.confusion))) for one in summary.calibrations] == [
        ("source_only", 60),
        ("adapted", 60),
    ]
    assert summary.temperature == summary.calibrations[1].scaled.temperature
    assert len(summary.unusual) == min(summary.unusual_count, 12)
    assert summary.target_images == 61
    assert {(a.stage, a.protocol, a.images) for a in summary.accuracies} == {
        ("source_only", "held-out", 60),
        ("adapted", "held-out", 60),
    }
    assert {"source_accuracy", "entropy", "infomax", "bnm", "snd", "class_ami", "dev"} <= set(summary.scores)
    assert [layer.layer for layer in summary.ranks] == ["conv1", "conv2", "full3", "full4"]
    assert all(layer.before == (32, 32) for layer in summary.ranks)
    assert summary.parameters["network"] == summary.parameters["deployed"] == 431_080
    assert set(summary.frequencies) == {"source", "target_before", "target_after"}
    assert all(abs(sum(values) - 1) < 1e-9 for values in summary.frequencies.values())
    assert len(summary.projection.target_after) == 61
    assert {"reading", "planning", "source training", "adaptation", "checks", "scoring", "report"} == set(
        summary.seconds
    )
    assert summary.verdict.selected == "adapted"  # --force
    assert any("broken.jpg" in note for note in summary.notes)
    assert len(summary.changed) <= min(24, summary.changed_count)


def test_model_adapter_and_prediction_agree(finished: Run, digits: Path) -> None:
    """model.safetensors, and the adapter on a network of the same kind, give the same logits for the same files."""
    deployed = load_run(finished.path)
    network = build_model("lenet", num_classes=10, in_channels=1)
    streams = load(network, finished.path / "adapter").eval()
    paths = list_images(digits / "scored")[:20]
    pixels = torch.stack([decode_image(path, size=28, channels=1) for path in paths])
    logits = deployed.logits(pixels)
    with torch.no_grad():
        assert (streams((pixels.float() / 255 - 0.5) / 0.5, stream="target") - logits).abs().max() < 1e-4
    assert deployed.classes[0] == "digit 0"


def test_the_accuracy_is_that_of_the_file(finished: Run, digits: Path) -> None:
    deployed = load_run(finished.path)
    right = 0
    paths = list_images(digits / "scored")
    for path in paths:
        pixels = decode_image(path, size=28, channels=1)[None]
        right += deployed.classes[int(deployed.logits(pixels).argmax())] == path.parent.name
    summary = read_summary(finished.path / "summary.json")
    adapted = next(a for a in summary.accuracies if a.stage == "adapted")
    assert adapted.percent == pytest.approx(100 * right / len(paths))


def test_a_base_run_spares_the_source_training(finished: Run, digits: Path, tmp_path: Path) -> None:
    out = tmp_path / "second"
    code, text = invoke(
        *("adapt", "-s", str(digits / "printed"), "-t", str(digits / "written"), "-o", str(out)),
        *("--base", str(finished.path), "--method", "dann", *QUICK),
        *(
            "--evaluate",
            str(digits / "written"),
        ),
    )
    assert code == 2  # its folders are no classes of the source
    assert "'roll 0' is not a class" in text.replace("\\", "/").replace(str(digits / "written") + "/", "")
    code, text = invoke(
        *("adapt", "-s", str(digits / "printed"), "-t", str(digits / "scored"), "-o", str(out)),
        *("--base", str(finished.path), "--method", "dann", "--select", "infomax", *QUICK),
        *("--evaluate", str(digits / "scored")),
    )
    assert code == 0, text
    assert "training the source network" not in text
    assert "60 images, transductive" in text
    first, second = (build_model("lenet", num_classes=10, in_channels=1) for _ in range(2))
    load_weights(first, RunDirectory(finished.path).source)
    load_weights(second, RunDirectory(out).source)
    x = torch.randn(4, 1, 28, 28)
    assert torch.equal(first(x), second(x))
    assert read_summary(out / "summary.json").selected.startswith("step ")


def test_help_has_an_example() -> None:
    code, text = invoke("adapt", "--help")
    assert code == 0
    assert "residapt adapt -s photos/" in text
    assert "--evaluate" in text


def test_images_are_seen_as_they_are_predicted(finished: Run, digits: Path) -> None:
    """Training reads a file through the same door as predict: same pixels, same normalisation."""
    from residapt.data.sources import Reading, open_target
    from residapt.models import input_spec

    opened = open_target(digits / "written", Reading(input_spec("lenet"), augment=False))
    deployed = load_run(finished.path)
    one = predict_logits(deployed.model, opened.plain, device=torch.device("cpu"))
    pixels = torch.stack([decode_image(path, size=28, channels=1) for path in opened.files])
    assert torch.allclose(one, deployed.logits(pixels), atol=1e-5)


def test_odd_image_files_train(digits: Path, tmp_path: Path) -> None:
    """Alpha, CMYK and 16 bits in the source as well."""
    for name in ("a", "b"):
        (tmp_path / "odd" / name).mkdir(parents=True)
        for number in range(4):
            value = 40 * number + (0 if name == "a" else 90)
            Image.new("RGBA", (30, 30), (value, value, 9, 200)).save(tmp_path / "odd" / name / f"{number}.png")
            Image.new("CMYK", (30, 30), (value, 9, 9, 9)).save(tmp_path / "odd" / name / f"{number}.jpg")
            Image.new("I;16", (30, 30), 257 * value).save(tmp_path / "odd" / name / f"deep{number}.png")
    code, text = invoke(
        *("adapt", "-s", str(tmp_path / "odd"), "-t", str(digits / "written"), "-o", str(tmp_path / "run")),
        *("--set", "pretrain.steps=2", "--set", "pretrain.allow_chance=true", "--steps", "2", "--device", "cpu"),
    )
    assert code == 0, text
    assert read_summary(tmp_path / "run" / "summary.json").source_images == 24
