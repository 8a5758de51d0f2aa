"""One optimiser with a group for the network, the transforms and the adversary."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from residapt.train.config import TrainConfig
from residapt.train.schedule import decay


def build_optimizer(groups: dict[str, list[nn.Parameter]], config: TrainConfig) -> Optimizer:
    """The optimiser named in the configuration; parameters that need no gradient stay out."""
    named: list[dict[str, Any]] = []
    for name, parameters in groups.items():
        settings = getattr(config, name)
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        if trained:
            named.append(
                {"params": trained, "name": name, "lr": settings.lr, "weight_decay": settings.weight_decay}
            )
    if config.optimizer == "sgd":
        return torch.optim.SGD(named, lr=config.network.lr, momentum=config.momentum)
    if config.optimizer == "rmsprop":
        return torch.optim.RMSprop(named, lr=config.network.lr)
    if config.optimizer == "adadelta":
        return torch.optim.Adadelta(named, lr=config.network.lr)
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    return kind(named, lr=config.network.lr, betas=(config.beta1, config.beta2), fused=True)


def set_learning_rates(optimizer: Optimizer, config: TrainConfig, progress: float) -> None:
    """Learning rates of this step, from the configuration alone."""
    factor = decay(config.decay, progress)
    for group in optimizer.param_groups:
        group["lr"] = getattr(config, group["name"]).lr * factor
