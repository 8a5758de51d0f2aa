"""Model specs: every form builds, and every mistake says what to do."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from residapt.errors import ConfigError, ModelError
from residapt.models import build_model, input_spec
from residapt.models.input_spec import IMAGENET, InputSpec
from support.storage_free import SHAPES_ONLY


def tiny_factory(num_classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(12, num_classes))


def not_a_model(num_classes: int) -> int:
    return num_classes


@pytest.fixture
def hf_dir(tmp_path: Path) -> Path:
    transformers = pytest.importorskip("transformers")
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_labels=3)
    transformers.ResNetForImageClassification(config).save_pretrained(tmp_path / "net")
    prepare = {
        "image_mean": [0.1, 0.2, 0.3],
        "image_std": [1, 2, 3],
        "size": {"shortest_edge": 96},
        "resample": 3,
    }
    (tmp_path / "net" / "preprocessor_config.json").write_text(json.dumps(prepare))
    return tmp_path / "net"


@pytest.mark.parametrize(
    ("spec", "options", "shape"),
    [
        ("lenet", {"in_channels": 1}, (1, 28, 28)),
        ("uavnet", {"in_channels": 1, "image_size": 48}, (1, 48, 48)),
        ("dtn", {}, (3, 32, 32)),
        ("torchvision:mobilenet_v3_small", {"in_channels": 1}, (1, 32, 32)),
        ("torchvision:vit_b_16", {"image_size": 32}, (3, 32, 32)),
        ("torchvision:inception_v3", {}, (3, 80, 80)),
        ("timm:resnet18", {"in_channels": 1}, (1, 32, 32)),
        ("timm:vit_tiny_patch16_224", {"image_size": 32}, (3, 32, 32)),
        (f"{__name__}:tiny_factory", {}, (3, 2, 2)),
    ],
)
def test_spec_builds_a_network_with_these_logits(spec: str, options: dict[str, int], shape: tuple[int, ...]) -> None:
    if spec.startswith("timm"):
        pytest.importorskip("timm")
    with SHAPES_ONLY:
        model = build_model(spec, num_classes=5, **options)
    model.train()  # networks with auxiliary outputs return more than logits in this mode
    assert model(torch.empty(2, *shape, device=SHAPES_ONLY)).shape == (2, 5)


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("lenett", "Did you mean lenet"),
        ("resnet50", "torchvision:resnet50"),
        ("torchvision:resnet5", "torchvision:resnet50"),
        ("timm:resnet_50", "timm:resnet"),
        ("torchvison:resnet50", "Did you mean torchvision"),
        ("no_such_module_at_all:f", "PYTHONPATH"),
        (f"{__name__}:tiny_facory", "tiny_factory"),
        ("hf:", "hf:NAME_OR_DIRECTORY"),
    ],
)
def test_misspelt_specs_get_the_nearest_names(spec: str, hint: str) -> None:
    if spec.startswith("timm"):
        pytest.importorskip("timm")
    with pytest.raises(ConfigError, match=hint):
        build_model(spec, num_classes=3)


def test_values_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"num_classes.*\b0\b"):
        build_model("lenet", num_classes=0)
    with pytest.raises(ModelError, match=r"\bint\b"):
        build_model(f"{__name__}:not_a_model", num_classes=3)


@pytest.mark.parametrize(("spec", "extra"), [("timm:resnet18", "timm"), ("hf:someone/net", "hf")])
def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, spec: str, extra: str) -> None:
    real = importlib.import_module

    def without_extras(name: str, package: str | None = None) -> Any:
        if name.split(".")[0] in {"timm", "transformers"}:
            raise ImportError(name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", without_extras)
    with pytest.raises(ConfigError, match=rf"pip install 'residapt\[{extra}\]'"):
        build_model(spec, num_classes=3)


def test_hf_directory_keeps_its_weights_and_gets_a_new_head(hf_dir: Path) -> None:
    same = build_model(f"hf:{hf_dir}", num_classes=3)
    other = build_model(f"hf:{hf_dir}", num_classes=5)
    trunk = [n for n in same.state_dict() if not n.startswith("classifier")]
    assert all(torch.equal(same.state_dict()[n], other.state_dict()[n]) for n in trunk)
    assert other(torch.rand(1, 3, 32, 32)).logits.shape == (1, 5)


def test_hf_directory_with_a_misfit_outside_the_head_is_refused(hf_dir: Path) -> None:
    config = json.loads((hf_dir / "config.json").read_text())
    config["embedding_size"] = 4
    (hf_dir / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="embedder"):
        build_model(f"hf:{hf_dir}", num_classes=3)


def test_hf_directory_without_weights_is_built_at_random(hf_dir: Path) -> None:
    (hf_dir / "model.safetensors").unlink()
    assert build_model(f"hf:{hf_dir}", num_classes=4)(torch.rand(1, 3, 32, 32)).logits.shape == (1, 4)


def test_hf_directory_without_configuration_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    with pytest.raises(ConfigError, match="save_pretrained"):
        build_model(f"hf:{tmp_path}", num_classes=4)


def test_input_specs_of_the_native_networks() -> None:
    assert input_spec("lenet") == InputSpec(size=28, channels=1, mean=(0.5,), std=(0.5,), interpolation="bilinear")
    for spec in ("svhnet", "dtn"):
        assert (input_spec(spec).size, input_spec(spec).channels) == (32, 3)
    built = build_model("lenet", num_classes=2, in_channels=3, image_size=32)
    assert input_spec(built) == InputSpec(size=32, channels=3, mean=(0.5,) * 3, std=(0.5,) * 3)


def test_input_specs_of_the_libraries() -> None:
    assert input_spec("torchvision:resnet50") == IMAGENET
    assert input_spec("torchvision:inception_v3").size == 299
    assert input_spec("torchvision:efficientnet_b0").interpolation == "bicubic"
    assert input_spec("my.module:net") == IMAGENET
    assert input_spec(tiny_factory(2)) == IMAGENET
    with pytest.raises(ConfigError, match="torchvision:resnet18"):
        input_spec("torchvision:resnet81")
    with pytest.raises(ConfigError, match=r"\blenet\b"):
        input_spec("lennet")


def test_input_spec_of_timm_comes_from_its_configuration() -> None:
    pytest.importorskip("timm")
    lite = InputSpec(size=224, channels=3, mean=(0.5,) * 3, std=(0.5,) * 3, interpolation="bicubic")
    assert input_spec("timm:tf_efficientnet_lite0") == lite
    with SHAPES_ONLY:
        assert input_spec(build_model("timm:tf_efficientnet_lite0", num_classes=2)) == lite
        assert input_spec(build_model("timm:vit_tiny_patch16_224", num_classes=2, image_size=32)).size == 32


def test_input_spec_of_hf_comes_from_its_preprocessor(hf_dir: Path) -> None:
    expected = InputSpec(size=96, channels=3, mean=(0.1, 0.2, 0.3), std=(1.0, 2.0, 3.0), interpolation="bicubic")
    assert input_spec(f"hf:{hf_dir}") == expected
    assert input_spec(build_model(f"hf:{hf_dir}", num_classes=3)) == expected
    (hf_dir / "preprocessor_config.json").unlink()
    assert input_spec(f"hf:{hf_dir}") == IMAGENET


@pytest.mark.parametrize(
    ("changed", "named"),
    [({"size": 0}, "size"), ({"mean": (0.5, 0.5)}, "mean"), ({"std": (0.0,)}, "std"), ({"channels": 0}, "channels")],
)
def test_impossible_input_specs_are_rejected(changed: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        InputSpec.parse({"size": 8, "channels": 3, "mean": (0.5,), "std": (0.5,), **changed})
