"""Exported networks compute the same; those that do not are not handed out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from residapt.deploy import FORMATS, export_run, load_run
from residapt.deploy import parity as comparing
from residapt.deploy.export import SUFFIXES
from residapt.deploy.parity import check_parity, example_batch, with_plain_output
from residapt.errors import ConfigError, ModelError
from residapt.models import InputSpec, build_model
from residapt.storage import AdapterMetadata, read_model_metadata, write_model
from residapt.storage.run_directory import RunDirectory
from residapt.streams import TwoStream
from support.small_run import CLASSES, METADATA

NETWORKS = {
    "lenet": InputSpec(size=28, channels=1, mean=(0.5,), std=(0.5,)),
    "torchvision:resnet18": InputSpec(size=64, channels=3, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
    "timm:tf_efficientnet_lite0": InputSpec(size=64, channels=3, mean=(0.5,), std=(0.5,)),
}


def adapted(spec: str, form: InputSpec) -> tuple[TwoStream, AdapterMetadata]:
    """A network with random weights, transforms in every layer and statistics that have seen something."""
    torch.manual_seed(0)
    network = build_model(spec, num_classes=5, in_channels=form.channels, image_size=form.size)
    streams = TwoStream(network, left_rank=3, right_rank=2, energy=0.05).train()
    with torch.no_grad():
        for _ in range(20):
            streams(torch.randn(8, form.channels, form.size, form.size), stream="target")
    return streams.eval(), AdapterMetadata(method="rpt", classes=tuple("abcde"), model=spec, input=form)


@pytest.mark.slow
@pytest.mark.parametrize("spec", NETWORKS)
def test_onnx_merged_and_live_agree(spec: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    if spec.startswith("timm:"):
        pytest.importorskip("timm")
    streams, metadata = adapted(spec, NETWORKS[spec])
    write_model(streams.merge_and_unload(), tmp_path / "model.safetensors", metadata)
    deployed = load_run(tmp_path / "model.safetensors")
    done = export_run(deployed, "onnx", tmp_path / "model.onnx")
    assert done.difference <= 1e-4
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    for count in (1, 7):
        images = example_batch(NETWORKS[spec], count)
        with torch.no_grad():
            live, source = streams(images, stream="target"), streams(images, stream="source")
            merged = deployed.model(images)
        onnx = torch.from_numpy(session.run(["logits"], {"images": images.numpy()})[0])
        for other in (merged, onnx):
            assert float((live - other).abs().max()) <= 1e-4
            assert torch.equal(live.argmax(1), other.argmax(1))
        assert float((live - source).abs().max()) > 1e-3
    properties = session.get_modelmeta().custom_metadata_map
    assert json.loads(properties["residapt.classes"]) == list("abcde")
    assert json.loads(properties["residapt.model"]) == spec
    assert json.loads(properties["residapt.input"])["size"] == NETWORKS[spec].size


@pytest.mark.slow
def test_torch_export_with_metadata_and_a_free_batch_size(run: RunDirectory, tmp_path: Path) -> None:
    done = export_run(run.path, "torch-export", tmp_path / "m.pt2")
    assert done.difference <= 1e-4
    assert done.size == (tmp_path / "m.pt2").stat().st_size
    extra = dict.fromkeys(["residapt.classes"], "")
    program = torch.export.load(tmp_path / "m.pt2", extra_files=extra)
    assert json.loads(extra["residapt.classes"]) == list(CLASSES)
    images = example_batch(load_run(run.path).input, 9)
    with torch.no_grad():
        torch.testing.assert_close(program.module()(images), load_run(run.path).model(images), rtol=0, atol=1e-5)


def test_plain_tensors(run: RunDirectory, network: nn.Module, tmp_path: Path) -> None:
    export_run(run.path, "safetensors", tmp_path / "m.safetensors")
    export_run(run.path, "state-dict", tmp_path / "m.pth")
    assert read_model_metadata(tmp_path / "m.safetensors") == METADATA
    state = torch.load(tmp_path / "m.pth", weights_only=True)
    assert state.keys() == network.state_dict().keys()
    for name, tensor in network.state_dict().items():
        torch.testing.assert_close(state[name], tensor, rtol=0, atol=1e-6)
    assert load_run(tmp_path / "m.safetensors").classes == CLASSES


def test_existing_and_misnamed_outputs(run: RunDirectory, tmp_path: Path) -> None:
    out = tmp_path / "m.pth"
    out.write_text("precious")
    with pytest.raises(ConfigError, match=r"m\.pth"):
        export_run(run.path, "state-dict", out)
    assert out.read_text() == "precious"
    export_run(run.path, "state-dict", out, overwrite=True)
    assert out.stat().st_size > 1000
    with pytest.raises(ConfigError, match=r"m\.pth.*'\.onnx'"):
        export_run(run.path, "onnx", tmp_path / "m.pth", overwrite=True)
    with pytest.raises(ConfigError, match=r"onnx, torch-export, safetensors, state-dict.*tflite"):
        export_run(run.path, "tflite", tmp_path / "m.tflite")  # type: ignore[arg-type]
    assert set(SUFFIXES) == set(FORMATS)


def off_by(amount: float, network: nn.Module) -> Any:
    return lambda images: network(images) + amount


def test_parity_refuses_wrong_logits_classes_and_shapes(network: nn.Module) -> None:
    form = METADATA.input
    assert form is not None

    def nan_at_the_best_class(images: torch.Tensor) -> torch.Tensor:
        """The class is the same, for torch takes NaN for the largest."""
        logits = network(images)
        return logits.scatter(1, logits.argmax(1, keepdim=True), float("nan"))

    assert check_parity("it", network, network, form) == 0
    with torch.no_grad():
        scale = float(max(network(example_batch(form, n)).abs().max() for n in (1, 2, 5)))
    assert scale > 1
    assert 0 < check_parity("it", network, off_by(5e-5, network), form) < 1e-4
    with pytest.raises(ModelError, match="e-0"):
        check_parity("it", network, off_by(1.5e-4 * scale, network), form)
    with pytest.raises(ModelError, match="nan"):
        check_parity("it", network, nan_at_the_best_class, form)
    with pytest.raises(ModelError, match=r"\(1, 2\)"):
        check_parity("it", network, lambda images: network(images)[:, :2], form)


def test_parity_refuses_another_class_at_equal_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a tolerance that lets everything pass, only the class can tell."""
    form = METADATA.input
    assert form is not None
    steps = torch.tensor([[0.0, 1e-3, 2e-3]])
    network = lambda images: steps.expand(len(images), 3)  # noqa: E731
    swapped = lambda images: steps.flip(1).expand(len(images), 3)  # noqa: E731
    monkeypatch.setattr(comparing, "TOLERANCE", 3e-3)
    monkeypatch.setattr(comparing, "_tied", lambda logits: False)
    with pytest.raises(ModelError):
        check_parity("it", network, swapped, form)


def test_failed_export_leaves_no_file(run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "residapt.deploy.export.write_torch_export", lambda network, *_: lambda images: network(images) * 2
    )
    with pytest.raises(ModelError):
        export_run(run.path, "torch-export", tmp_path / "out" / "m.pt2")
    assert os.listdir(tmp_path / "out") == []


def test_exporters_own_errors_are_explained(run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("unsupported operator\nmany more lines")

    monkeypatch.setattr("residapt.deploy.export.write_torch_export", fail)
    with pytest.raises(ModelError, match=r"lenet.*torch-export.*unsupported operator.*--format"):
        export_run(run.path, "torch-export", tmp_path / "m.pt2")


def test_objects_with_logits_are_unwrapped() -> None:
    class Result:
        def __init__(self, logits: torch.Tensor) -> None:
            self.logits = logits

    class Network(nn.Module):
        def forward(self, x: torch.Tensor) -> Result:
            return Result(x * 2)

    x = torch.ones(2, 3)
    assert torch.equal(with_plain_output(Network(), x)(x), 2 * x)
    plain = nn.Identity()
    assert with_plain_output(plain, x) is plain
