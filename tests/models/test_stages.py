from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from residapt.errors import ModelError
from residapt.models import build_model
from residapt.models.stages import FrozenStages, cut_after, stages_up_to


class Chain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 4, 3, padding=1)
        self.blocks = nn.Sequential(
            nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.ReLU()),
            nn.Sequential(nn.Conv2d(4, 5, 1), nn.ReLU(), nn.Conv2d(5, 6, 1)),
        )
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class Shortcut(Chain):
    def forward(self, x: Tensor) -> Tensor:
        stem = self.stem(x)
        return self.head(self.blocks(stem).mean((2, 3)) + stem.sum((1, 2, 3)).unsqueeze(1))


@pytest.mark.parametrize("last", ["stem", "blocks.0", "blocks.1.0", "blocks"])
def test_both_parts_together_are_the_network(last: str) -> None:
    model, x = Chain().double().eval(), torch.randn(3, 2, 5, 5, dtype=torch.float64)
    front, rest = cut_after(model, last, x)
    torch.testing.assert_close(rest(front(x)), model(x))
    kept = {name for name, _ in rest.named_parameters()}
    assert kept == {
        name
        for name, _ in model.named_parameters()
        if not any(name.startswith(f"{stage}.") for stage in stages_up_to(model, last))
    }


def test_names_of_the_stages_before_a_cut() -> None:
    assert stages_up_to(Chain(), "blocks.1.0") == ["stem", "blocks.0", "blocks.1.0"]


def test_frozen_stages_stay_as_they_are_when_training_is_asked_for() -> None:
    front, _ = cut_after(Chain(), "blocks.0", torch.randn(2, 2, 5, 5))
    front.train()
    before = {name: buffer.clone() for name, buffer in front.named_buffers()}
    assert not front(torch.randn(2, 2, 5, 5)).requires_grad
    assert all(torch.equal(buffer, before[name]) for name, buffer in front.named_buffers())


def test_the_network_that_is_cut_is_not_touched() -> None:
    model = Chain()
    front, rest = cut_after(model, "blocks.0", torch.randn(2, 2, 5, 5))
    assert model.training
    assert rest.training
    assert all(parameter.requires_grad for parameter in model.parameters())
    own = {id(p) for p in model.parameters()}
    assert not own & {id(p) for p in (*front.parameters(), *rest.parameters())}


def test_a_network_with_a_shortcut_past_the_cut_is_refused() -> None:
    with pytest.raises(ModelError, match=r"cannot be cut after 'blocks.0'"):
        cut_after(Shortcut(), "blocks.0", torch.randn(2, 2, 5, 5))


def test_an_unknown_stage_is_named_with_near_ones() -> None:
    with pytest.raises(ModelError, match=r"'blocks.7' is not a module of Chain. Did you mean blocks"):
        cut_after(Chain(), "blocks.7", torch.randn(2, 2, 5, 5))


def test_a_module_that_is_never_called_is_refused(nets: Callable[..., Any]) -> None:
    model = Chain()
    model.unused = nn.Linear(2, 2)
    with pytest.raises(ModelError, match="not called"):
        FrozenStages(model, "unused")(torch.randn(2, 2, 5, 5))


@pytest.mark.parametrize(
    ("spec", "last"), [("torchvision:resnet18", "layer2"), ("timm:tf_efficientnet_lite0", "blocks.5.0")]
)
def test_real_networks_can_be_cut(spec: str, last: str) -> None:
    torch.manual_seed(0)
    model, x = build_model(spec, num_classes=3).eval(), torch.randn(2, 3, 64, 64)
    front, rest = cut_after(model, last, x)
    with torch.no_grad():
        torch.testing.assert_close(rest.eval()(front(x)), model(x), rtol=1e-3, atol=1e-5)
