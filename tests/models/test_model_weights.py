"""Weights files: what is loaded, what is replaced, what is refused."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from residapt.errors import ModelError
from residapt.models import LeNet, build_model, load_weights, read_weights, weights


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("should-not-exist",)


@pytest.fixture
def donor() -> nn.Module:
    torch.manual_seed(3)
    return LeNet()


@pytest.mark.parametrize("suffix", [".safetensors", ".pth", ".pt"])
def test_same_classes_are_loaded_whole(tmp_path: Path, donor: nn.Module, suffix: str) -> None:
    path = tmp_path / f"w{suffix}"
    (save_file if suffix == ".safetensors" else torch.save)(donor.state_dict(), path)
    model = LeNet()
    assert load_weights(model, path) == ()
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, donor.state_dict()[name]), name


def test_other_number_of_classes_replaces_the_head_only(tmp_path: Path, donor: nn.Module) -> None:
    save_file(donor.state_dict(), tmp_path / "w.safetensors")
    model = build_model("lenet", num_classes=4, in_channels=1, weights=tmp_path / "w.safetensors")
    assert torch.equal(model.full3.weight, donor.full3.weight)
    assert model.full4.weight.shape == (4, 500)
    assert load_weights(model, tmp_path / "w.safetensors") == ("full4.weight", "full4.bias")


@pytest.mark.parametrize("prefix", ["module.", "module._orig_mod.", "model."])
@pytest.mark.parametrize("wrapper", [None, "state_dict", "model"])
def test_wrappers_are_stripped(tmp_path: Path, donor: nn.Module, prefix: str, wrapper: str | None) -> None:
    state: dict[str, object] = {prefix + n: t for n, t in donor.state_dict().items()}
    torch.save({wrapper: state, "epoch": 3} if wrapper else state, tmp_path / "w.pth")
    model = LeNet()
    load_weights(model, tmp_path / "w.pth")
    assert torch.equal(model.conv1.weight, donor.conv1.weight)


def test_misfit_names_the_first_layer_and_both_shapes(tmp_path: Path, donor: nn.Module) -> None:
    save_file(donor.state_dict(), tmp_path / "w.safetensors")
    with pytest.raises(ModelError, match=r"'conv1\.weight'.*20x1x5x5.*20x3x5x5"):
        load_weights(LeNet(in_channels=3), tmp_path / "w.safetensors")


def test_missing_and_left_over_tensors_are_refused(tmp_path: Path, donor: nn.Module) -> None:
    state = donor.state_dict()
    del state["conv2.bias"]
    save_file(state, tmp_path / "short.safetensors")
    with pytest.raises(ModelError, match=r"'conv2\.bias' \(50 "):
        load_weights(LeNet(), tmp_path / "short.safetensors")
    save_file({**donor.state_dict(), "conv9.bias": torch.zeros(2)}, tmp_path / "long.safetensors")
    with pytest.raises(ModelError, match=r"'conv9\.bias' \(2 "):
        load_weights(LeNet(), tmp_path / "long.safetensors")


def test_a_deeper_network_with_fitting_names_is_refused(tmp_path: Path) -> None:
    """Every tensor of resnet18 has a namesake of the same shape in resnet34."""
    save_file(build_model("torchvision:resnet34", num_classes=2).state_dict(), tmp_path / "w.safetensors")
    with pytest.raises(ModelError, match="is not in the network"):
        build_model("torchvision:resnet18", num_classes=2, weights=tmp_path / "w.safetensors")


def test_a_refused_file_changes_nothing(tmp_path: Path, donor: nn.Module) -> None:
    state = {**donor.state_dict(), "conv2.weight": torch.zeros(1)}
    save_file(state, tmp_path / "w.safetensors")
    model = LeNet()
    before = model.conv1.weight.clone()
    with pytest.raises(ModelError):
        load_weights(model, tmp_path / "w.safetensors")
    assert torch.equal(model.conv1.weight, before)


def test_batch_counters_may_be_absent(tmp_path: Path) -> None:
    donor = build_model("dtn", num_classes=2)
    state = {n: t for n, t in donor.state_dict().items() if "num_batches_tracked" not in n}
    save_file(state, tmp_path / "w.safetensors")
    assert load_weights(build_model("dtn", num_classes=2), tmp_path / "w.safetensors") == ()


def test_pickled_code_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"conv1.weight": Evil()}, tmp_path / "evil.pth")
    with pytest.raises(ModelError, match="state_dict"):
        read_weights(tmp_path / "evil.pth")
    assert not (tmp_path / "should-not-exist").exists()


def test_unusable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        read_weights(tmp_path / "none.pth")
    for name in ("bad.pth", "bad.safetensors", "bad.bin"):
        (tmp_path / name).write_bytes(b"not weights")
        with pytest.raises(ModelError, match=name):
            read_weights(tmp_path / name)
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(ModelError):
        read_weights(tmp_path / "list.pt")
    save_file({}, tmp_path / "empty.safetensors")
    with pytest.raises(ModelError, match=r"conv1\.weight"):
        load_weights(LeNet(), tmp_path / "empty.safetensors")


class Staged(nn.Module):
    """The part of a ResNet that tells the layouts apart."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, bias=False)
        block = nn.Module()
        block.conv1, block.bn1 = nn.Conv2d(4, 4, 1, stride=stride), nn.BatchNorm2d(4)
        self.layer2 = nn.Sequential(block)
        self.fc = nn.Linear(4, 2)


def test_a_known_file_of_the_original_layout_is_refused_by_the_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = Staged(2).state_dict()
    state["layer2.0.bn1.num_batches_tracked"] = torch.tensor([7])
    save_file(state, tmp_path / "w.safetensors")
    first = hashlib.sha256(state["conv1.weight"].contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()
    assert load_weights(Staged(1), tmp_path / "w.safetensors") == (), "nobody knows this file"
    monkeypatch.setattr(weights, "_ORIGINAL_RESNETS", frozenset({first}))
    with pytest.raises(ModelError, match=r"w\.safetensors.*3x3"):
        load_weights(Staged(1), tmp_path / "w.safetensors")
    model = Staged(2)
    assert load_weights(model, tmp_path / "w.safetensors") == ()
    assert model.state_dict()["layer2.0.bn1.num_batches_tracked"].item() == 7
    save_file({f"module.{name}": tensor for name, tensor in state.items()}, tmp_path / "wrapped.safetensors")
    with pytest.raises(ModelError, match="3x3"):
        load_weights(Staged(1), tmp_path / "wrapped.safetensors")


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("RESIDAPT_DATA"), reason="RESIDAPT_DATA is not set")
def test_torchvisions_resnet_refuses_the_original_weights() -> None:
    path = Path(os.environ["RESIDAPT_DATA"]) / "weights" / "resnet50_v1.safetensors"
    with pytest.raises(ModelError, match="original ResNet-50"):
        build_model("torchvision:resnet50", num_classes=31, weights=path)


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("RESIDAPT_DATA"), reason="RESIDAPT_DATA is not set")
def test_imagenet_weights_of_efficientnet_lite() -> None:
    pytest.importorskip("timm")
    path = Path(os.environ["RESIDAPT_DATA"]) / "weights" / "tf_efficientnet_lite0.safetensors"
    model = build_model("timm:tf_efficientnet_lite0", num_classes=31, weights=path)
    assert torch.equal(model.conv_stem.weight, read_weights(path)["conv_stem.weight"])
    assert model.classifier.weight.shape == (31, 1280)
