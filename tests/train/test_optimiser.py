from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from residapt.methods import MethodConfig, build_method
from residapt.models.heads import with_bottleneck
from residapt.train import GroupConfig, TrainConfig, eager
from residapt.train.optimiser import build_optimizer, set_learning_rates


def groups() -> dict[str, list[nn.Parameter]]:
    return {
        "network": [nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(2), requires_grad=False)],
        "transform": [nn.Parameter(torch.zeros(4))],
        "adversary": [],
    }


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("adam", eager.Adam),
        ("adamw", eager.AdamW),
        ("sgd", eager.SGD),
        ("adadelta", eager.Adadelta),
    ],
)
def test_each_group_has_its_own_settings(name: Any, kind: type) -> None:
    config = TrainConfig(
        optimizer=name,
        beta1=0.4,
        weight_decay=1e-3,
        network=GroupConfig(lr=1e-2),
        transform=GroupConfig(lr=1e-3),
    )
    made = build_optimizer(groups(), config)
    assert type(made) is kind
    found = {group["name"]: (group["lr"], group["weight_decay"], len(group["params"])) for group in made.param_groups}
    assert found == {"network": (1e-2, 1e-3, 1), "transform": (1e-3, 1e-3, 1)}
    if "betas" in made.defaults:
        assert made.defaults["betas"] == (0.4, 0.999)
    if name == "sgd":
        assert made.defaults["momentum"] == 0.9


def test_learning_rates_follow_from_the_configuration_alone() -> None:
    config = TrainConfig(network=GroupConfig(lr=1.0), transform=GroupConfig(lr=0.5), decay="linear")
    made = build_optimizer(groups(), config)
    for progress in (0.9, 0.25):
        set_learning_rates(made, config, progress)
        assert [group["lr"] for group in made.param_groups] == [1.0 - progress, 0.5 * (1 - progress)]


@pytest.mark.parametrize("name", ["rpt", "dann"])
def test_every_parameter_of_a_method_is_in_one_group(nets: Callable[..., Any], name: str) -> None:
    model, x = nets("resnet")
    method = build_method(name, model, MethodConfig(), example=x).double()
    found = method.groups()
    assert set(found) == {"network", "transform", "adversary"}
    listed = [id(parameter) for parameters in found.values() for parameter in parameters]
    assert sorted(listed) == sorted(id(parameter) for parameter in method.parameters())
    assert {id(p) for p in found["network"]} == {id(p) for p in model.parameters()}


def test_the_bottleneck_is_new_as_well_and_learns_with_the_classifier() -> None:
    model = with_bottleneck(nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)), num_classes=3, width=2)
    config = TrainConfig(network=GroupConfig(lr=1e-3), head=10.0)
    made = build_optimizer({"network": list(model.parameters())}, config, model)
    found = {group["name"]: (group["lr"], sum(p.numel() for p in group["params"])) for group in made.param_groups}
    assert found == {"network": (1e-3, 25), "network.head": (pytest.approx(1e-2), 5 * 2 + 2 + 2 * 3 + 3)}
