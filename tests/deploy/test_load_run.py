"""Runs, model files and adapters become the same network."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from residapt.deploy import load_run
from residapt.errors import ConfigError, ModelError
from residapt.models import build_model, with_bottleneck
from residapt.storage import read_model_metadata, save_pretrained, write_model
from residapt.storage.run_directory import RunDirectory
from residapt.streams import TwoStream
from support.small_run import CLASSES, METADATA


def pixels() -> Tensor:
    return torch.randint(0, 256, (3, 1, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_run_file_and_adapter_give_the_live_target_stream(run: RunDirectory, two_stream: TwoStream) -> None:
    floats = (pixels().float() / 255 - 0.4) / 0.2
    with torch.no_grad():
        live = two_stream(floats, stream="target")
        assert not torch.allclose(live, two_stream(floats, stream="source"), atol=1e-2)
    for path in (run.path, run.model, run.adapter):
        found = load_run(path)
        torch.testing.assert_close(found.logits(pixels()), live, rtol=0, atol=1e-4)
        assert (found.classes, found.input, found.spec) == (CLASSES, METADATA.input, "lenet")
        assert not found.model.training
        assert not any(parameter.requires_grad for parameter in found.model.parameters())


def test_target_folder_of_the_run_is_known(run: RunDirectory) -> None:
    assert load_run(run.path).target == run.path.parent / "target"
    assert load_run(run.model).target is None


def test_adapter_away_from_its_run_needs_its_base(run: RunDirectory, tmp_path: Path) -> None:
    alone = tmp_path / "elsewhere" / "adapter"
    shutil.copytree(run.adapter, alone)
    with pytest.raises(ModelError, match=r"'conv1'.*--base"):
        load_run(alone)
    expected = load_run(run.path).logits(pixels())
    for base in (run.source, run.path):
        torch.testing.assert_close(load_run(alone, base=base).logits(pixels()), expected, rtol=0, atol=1e-6)
    with pytest.raises(ModelError, match="'conv1'"):
        load_run(alone, base=run.model)


def test_adapter_with_its_base_included_stands_alone(two_stream: TwoStream, run: RunDirectory, tmp_path: Path) -> None:
    save_pretrained(two_stream, tmp_path / "alone", metadata=METADATA, base="included")
    expected = load_run(run.path).logits(pixels())
    torch.testing.assert_close(load_run(tmp_path / "alone").logits(pixels()), expected, rtol=0, atol=1e-6)


def test_bottleneck_is_rebuilt(tmp_path: Path) -> None:
    network = with_bottleneck(build_model("lenet", num_classes=3, in_channels=1), num_classes=3, width=7).eval()
    write_model(network, tmp_path / "m.safetensors", METADATA.model_copy(update={"bottleneck": 7}))
    found = load_run(tmp_path / "m.safetensors")
    with torch.no_grad():
        expected = network((pixels().float() / 255 - 0.4) / 0.2)
    torch.testing.assert_close(found.logits(pixels()), expected, rtol=0, atol=1e-6)


def test_other_image_size_is_rebuilt(tmp_path: Path) -> None:
    network = build_model("lenet", num_classes=3, in_channels=1, image_size=20)
    assert METADATA.input is not None
    smaller = METADATA.model_copy(update={"input": METADATA.input.model_copy(update={"size": 20})})
    write_model(network, tmp_path / "m.safetensors", smaller)
    assert load_run(tmp_path / "m.safetensors").logits(pixels()[:, :, :20, :20]).shape == (3, 3)


def test_tied_weights_are_written_under_both_names(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    network[1].weight = network[0].weight
    write_model(network, tmp_path / "m.safetensors", METADATA)
    state = load_file(tmp_path / "m.safetensors")
    assert torch.equal(state["0.weight"], state["1.weight"])


def test_metadata_are_in_the_file(run: RunDirectory) -> None:
    assert read_model_metadata(run.model) == METADATA


def test_unfinished_run(run: RunDirectory) -> None:
    run.model.unlink()
    with pytest.raises(ConfigError, match="--resume"):
        load_run(run.path)


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_not_a_run(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=name):
        load_run(tmp_path / name)


def test_file_of_somebody_else(tmp_path: Path, network: nn.Module) -> None:
    save_file(network.state_dict(), tmp_path / "m.safetensors")
    with pytest.raises(ModelError, match=r"m\.safetensors"):
        load_run(tmp_path / "m.safetensors")


@pytest.mark.parametrize("keep", [0, 4, 500, -1])
def test_broken_model_file(run: RunDirectory, keep: int) -> None:
    run.model.write_bytes(run.model.read_bytes()[:keep])
    with pytest.raises(ModelError, match=r"model\.safetensors"):
        load_run(run.path)


def test_metadata_that_do_not_fit_the_weights(run: RunDirectory, network: nn.Module) -> None:
    write_model(network, run.model, METADATA.model_copy(update={"classes": ("a", "b")}))
    with pytest.raises(ModelError, match=r"'lenet'.*'full4.weight'"):
        load_run(run.path)


def test_network_that_no_spec_names(run: RunDirectory, network: nn.Module) -> None:
    write_model(network, run.model, METADATA.model_copy(update={"model": None}))
    with pytest.raises(ModelError, match=r"residapt\.load"):
        load_run(run.path)


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_devices_that_are_not_there(run: RunDirectory, device: str) -> None:
    with pytest.raises(ConfigError, match="device"):
        load_run(run.path, device=device)


@pytest.mark.parametrize("name", ["weights.pth", "weights.PT", "checkpoint.ckpt"])
def test_a_file_of_weights_alone_is_refused_with_its_name(tmp_path: Path, name: str) -> None:
    torch.save({"a": torch.zeros(2)}, tmp_path / name)
    with pytest.raises(ConfigError) as raised:
        load_run(tmp_path / name)
    assert str(tmp_path / name) in str(raised.value)
    assert "weights_only" not in str(raised.value)
