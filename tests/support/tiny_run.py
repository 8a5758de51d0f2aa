"""A run that takes a second: convolution, batch norm, dropout, all kinds of state, ranks that fall."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from residapt.data.domains import DomainPair, Labelled, TensorImages
from residapt.distributed import Engine
from residapt.methods import MethodConfig, build_method
from residapt.methods.config import DiscrepancyConfig
from residapt.rank import RankConfig
from residapt.settings import merged
from residapt.train import Callback, TrainConfig, Trainer
from residapt.transform import TransformConfig

STEPS = 24


class TinyNet(nn.Module):
    """8 x 8 images, three classes."""

    def __init__(self, *, norm: bool = True, dropout: float = 0.3) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4) if norm else nn.Identity()
        self.drop = nn.Dropout(dropout)
        self.full = nn.Linear(36, 7)
        self.head = nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        return self.head(torch.tanh(self.full(self.drop(x.flatten(1)))))


def keep(images: Tensor, _generator: torch.Generator) -> Tensor:
    """A batch transform that leaves the precision as it is."""
    return images


def noisy(images: Tensor, generator: torch.Generator) -> Tensor:
    """An augmentation."""
    return images + 0.05 * torch.randn(images.shape, generator=generator, dtype=images.dtype)


def tiny_pair(dtype: torch.dtype = torch.float32, *, augment: bool = True, size: int = 30) -> DomainPair:
    generator = torch.Generator().manual_seed(7)
    labels = torch.arange(size) % 3
    centres = torch.randn(3, 1, 8, 8, generator=generator, dtype=dtype)
    images = [centres[labels] + 0.4 * torch.randn(size, 1, 8, 8, generator=generator, dtype=dtype) for _ in range(2)]
    change = noisy if augment else keep
    return DomainPair(Labelled(TensorImages(images[0], change), labels), TensorImages(images[1] + 0.5, change))


def tiny_trainer(
    name: str = "rpt",
    callbacks: Iterable[Callback] = (),
    *,
    pair: DomainPair | None = None,
    dtype: torch.dtype = torch.float32,
    net: dict[str, Any] | None = None,
    rank: RankConfig | None = None,
    engine: Engine | None = None,
    parts: dict[str, Any] | None = None,
    **train: Any,
) -> Trainer:
    """A fresh trainer; the same whenever and wherever it is built. ``parts`` are further settings of the method."""
    torch.manual_seed(3)
    network = TinyNet(**(net or {})).to(dtype)
    settings = MethodConfig(
        rank=rank or RankConfig(every=5, step=2.5e-2),
        transform=TransformConfig(left_rank=6, right_rank=6),
        discrepancy=DiscrepancyConfig(hidden=(8,), dropout=0.2 if net is None else 0.0),
    )
    settings = MethodConfig.parse(merged(settings.model_dump(), parts or {}), where="test")
    pair = pair or tiny_pair(dtype)
    example = pair.source.images.fetch(torch.arange(2), torch.Generator())
    method = build_method(name, network, settings, example=example)
    values = {"steps": STEPS, "batch_size": 8, "log_every": 1, "clip": 5.0, "decay": "cosine", **train}
    return Trainer(method, pair, TrainConfig.parse(values, where="test"), callbacks=callbacks, engine=engine)
