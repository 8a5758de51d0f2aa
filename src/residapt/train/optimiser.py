"""One optimiser with a group for the network, the transforms and the adversary."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from residapt.models.heads import new_layers
from residapt.train import eager
from residapt.train.config import GroupConfig, TrainConfig
from residapt.train.schedule import decay

MOMENTUM = 0.9
"""Momentum of SGD."""
BETA2 = 0.999
"""Second-moment decay of Adam."""
HEAD = "network.head"
"""Group of the classifier's parameters, where they learn at a rate of their own."""


def build_optimizer(
    groups: dict[str, list[nn.Parameter]],
    config: TrainConfig,
    model: nn.Module | None = None,
    example: Tensor | None = None,
) -> Optimizer:
    """The optimiser named in the configuration; parameters that need no gradient stay out.

    With ``model`` and a ``head`` factor, the network's new layers become a group of their own; ``example`` is a small
    batch of its input, by which they are found.
    """
    if model is not None and config.head != 1.0:
        groups = _with_head(groups, model, example)
    named: list[dict[str, Any]] = []
    for name, parameters in groups.items():
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        if trained:
            rate, penalty = _rate(config, name), config.weight_decay
            named.append({"params": trained, "name": name, "lr": rate, "weight_decay": penalty})
    if not named:  # batch-norm statistics alone learn without gradients
        named.append({"params": [nn.Parameter(torch.zeros(1))], "name": "network", "lr": 0.0})
    if config.optimizer == "sgd":
        return eager.SGD(named, lr=config.network.lr, momentum=MOMENTUM)
    if config.optimizer == "adadelta":
        return eager.Adadelta(named, lr=config.network.lr)
    kind = eager.AdamW if config.optimizer == "adamw" else eager.Adam
    return kind(named, lr=config.network.lr, betas=(config.beta1, BETA2), fused=True)


def set_learning_rates(optimizer: Optimizer, config: TrainConfig, progress: float, gentler: float = 1.0) -> None:
    """Learning rates of this step, from the configuration and a factor for all of them."""
    factor = gentler * decay(config.decay, progress)
    if config.warmup > 0:
        factor *= min(1.0, progress / config.warmup)
    for group in optimizer.param_groups:
        group["lr"] = _rate(config, group["name"]) * factor


def _rate(config: TrainConfig, name: str) -> float:
    group: GroupConfig = getattr(config, name.partition(".")[0])
    return group.lr * (config.head if name == HEAD else 1.0)


def _with_head(
    groups: dict[str, list[nn.Parameter]], model: nn.Module, example: Tensor | None
) -> dict[str, list[nn.Parameter]]:
    """The groups with the classifier of ``model``, and its bottleneck, taken out of the network's group."""
    own = {id(p) for name in new_layers(model, example) for p in model.get_submodule(name).parameters()}
    split: dict[str, list[nn.Parameter]] = {}
    for name, parameters in groups.items():
        split[name] = [p for p in parameters if name != "network" or id(p) not in own]
        if name == "network":
            split[HEAD] = [p for p in parameters if id(p) in own]
    return split
