"""The papers' ResNet-50: the stride in the first 1x1 convolution of a stage."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from torch import nn

from residapt.models import build_model
from residapt.models.stages import cut_after
from residapt_bench.original_resnet import original_resnet50


def with_strides_moved() -> nn.Module:
    network = build_model("torchvision:resnet50", num_classes=5)
    for name in ("layer2", "layer3", "layer4"):
        block = network.get_submodule(f"{name}.0")
        block.conv1.stride, block.conv2.stride = (2, 2), (1, 1)
    return network


def test_it_computes_what_torchvisions_does_with_the_strides_moved() -> None:
    torch.manual_seed(0)
    ours, moved, plain = original_resnet50(5), with_strides_moved(), build_model("torchvision:resnet50", num_classes=5)
    images = torch.randn(2, 3, 64, 64)
    for other in (moved, plain):
        other.load_state_dict(ours.state_dict())
        other.eval()
    with torch.no_grad():
        found = ours.eval()(images)
        assert torch.allclose(found, moved(images), rtol=1e-4, atol=1e-5)
        assert not torch.allclose(found, plain(images), rtol=1e-2, atol=1e-2)
        front, rest = cut_after(ours, "layer3", images)
        kept = front(images)
        assert kept.shape == (2, 1024, 2, 2), "a quarter of the 4x4 map"
        assert torch.allclose(rest.eval()(kept), found, rtol=1e-4, atol=1e-5)


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("RESIDAPT_DATA"), reason="RESIDAPT_DATA is not set")
def test_the_weights_of_the_data_sets_load() -> None:
    path = Path(os.environ["RESIDAPT_DATA"]) / "weights" / "resnet50_v1.safetensors"
    spec = "residapt_bench.original_resnet:original_resnet50"
    assert build_model(spec, num_classes=31, weights=path).get_parameter("fc.weight").shape == (31, 2048)
