"""Finding and replacing the classifier of many kinds of network."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from residapt.errors import ConfigError, ModelError
from residapt.models import Bottleneck, LeNet, build_model, find_head, with_bottleneck
from support.storage_free import SHAPES_ONLY

HEADS = {
    "lenet": "full4",
    "dtn": "classifier",
    "torchvision:resnet18": "fc",
    "torchvision:efficientnet_b0": "classifier.1",
    "torchvision:vit_b_16": "heads.head",
    "torchvision:convnext_tiny": "classifier.2",
    "torchvision:mobilenet_v3_small": "classifier.3",
    "torchvision:swin_t": "head",
    "torchvision:squeezenet1_1": "classifier.1",
    "torchvision:googlenet": "fc",
    "timm:resnet18": "fc",
    "timm:tf_efficientnet_lite0": "classifier",
    "timm:vit_tiny_patch16_224": "head",
    "timm:convnext_atto": "head.fc",
    "timm:resnetv2_50x1_bit": "head.fc",
}


def on_meta(spec: str, num_classes: int = 7) -> nn.Module:
    if spec.startswith("timm:"):
        pytest.importorskip("timm")
    channels = 1 if spec == "lenet" else 3
    with SHAPES_ONLY:
        return build_model(spec, num_classes=num_classes, in_channels=channels)


@pytest.mark.parametrize("spec", HEADS)
def test_head_is_found_and_gives_the_logits(spec: str) -> None:
    model = on_meta(spec)
    assert find_head(model) == HEADS[spec]
    assert model.get_submodule(HEADS[spec]).weight.shape[0] == 7


@pytest.mark.parametrize("spec", HEADS)
def test_bottleneck_replaces_the_head_and_keeps_the_rest(spec: str) -> None:
    model = on_meta(spec)
    old = model.get_submodule(HEADS[spec])
    rest = {n: p.shape for n, p in model.named_parameters() if not n.startswith(HEADS[spec])}
    with_bottleneck(model, width=16, num_classes=5)
    new = model.get_submodule(HEADS[spec])
    assert isinstance(new, Bottleneck)
    assert new.bottleneck.weight.shape[:2] == (16, old.weight.shape[1])
    assert new.classifier.weight.shape[:2] == (5, 16)
    assert {n: p.shape for n, p in model.named_parameters() if not n.startswith(HEADS[spec])} == rest
    assert find_head(model) == HEADS[spec] + ".classifier"


@pytest.mark.parametrize("spec", ["torchvision:squeezenet1_1", "torchvision:resnet18", "timm:resnetv2_50x1_bit"])
def test_a_network_with_bottleneck_runs(spec: str) -> None:
    model = with_bottleneck(on_meta(spec), width=8, num_classes=3).eval()
    assert model(torch.empty(2, 3, 64, 64, device=SHAPES_ONLY)).shape == (2, 3)


def test_bottleneck_is_linear_in_its_input_and_xavier_initialised() -> None:
    torch.manual_seed(0)
    model = with_bottleneck(LeNet(), num_classes=10)
    head = model.full4
    a, b = torch.randn(2, 4, 500).unbind()
    torch.testing.assert_close(head(a) + head(b) - head(torch.zeros_like(a)), head(a + b), rtol=1e-4, atol=1e-4)
    assert head.bottleneck.weight.std().item() == pytest.approx(math.sqrt(2 / (500 + 256)), rel=0.02)
    assert not head.bottleneck.bias.any()


def test_resnet50_with_bottleneck_has_the_size_of_long_et_al() -> None:
    model = with_bottleneck(on_meta("torchvision:resnet50", 1000), num_classes=31)
    assert sum(p.numel() for p in model.parameters()) == 24_040_543


def test_head_keeps_precision() -> None:
    assert with_bottleneck(LeNet().double(), num_classes=3).full4.bottleneck.weight.dtype == torch.float64


def test_what_cannot_be_done_is_refused() -> None:
    with pytest.raises(ModelError):
        find_head(nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU()))
    with pytest.raises(ModelError):
        with_bottleneck(with_bottleneck(LeNet(), num_classes=3), num_classes=3)
    with pytest.raises(ConfigError, match="width=0"):
        with_bottleneck(LeNet(), num_classes=3, width=0)


def test_two_heads_are_refused_by_name() -> None:
    pytest.importorskip("timm")
    with pytest.raises(ModelError, match="head, head_dist"):
        find_head(on_meta("timm:deit_tiny_distilled_patch16_224"))
