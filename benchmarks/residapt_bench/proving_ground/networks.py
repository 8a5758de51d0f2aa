"""A fresh network for each pair, as a user would build it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from residapt_bench.proving_ground.library import build_model

if TYPE_CHECKING:
    from residapt_bench.proving_ground.pair import ProvingPair

WEIGHTS = {
    "efficientnet_lite0": "weights/tf_efficientnet_lite0.safetensors",
    "resnet50": "weights/resnet50_v1.safetensors",
}
INPUT = {
    "efficientnet_lite0": ((0.5,) * 3, (0.5,) * 3),
    "resnet50": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}
"""Mean and standard deviation that the weights were trained with."""
SPECS = {
    "efficientnet_lite0": "timm:tf_efficientnet_lite0",
    "resnet50": "residapt_bench.original_resnet:original_resnet50",
}


def pair_network(pair: ProvingPair, seed: int) -> nn.Module:
    """The network of the pair's kind; the seed decides all that no weights file does."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _build(pair)


def _build(pair: ProvingPair) -> nn.Module:
    kind, classes = pair.spec.network, len(pair.classes)
    if kind == "mlp":
        return nn.Sequential(nn.Linear(pair.channels, 256), nn.ReLU(), nn.Linear(256, classes))
    if kind == "conv1d":
        return SeriesNet(pair.channels, classes)
    if kind in SPECS:
        return deep_network(kind, pair.root, classes, pair.image_size)
    return build_model(kind, num_classes=classes, in_channels=pair.channels, image_size=pair.image_size)


def deep_network(kind: str, root: Path, classes: int, image_size: int | None) -> nn.Module:
    """A network with ImageNet's weights and a new classifier."""
    return build_model(SPECS[kind], num_classes=classes, image_size=image_size, weights=root / WEIGHTS[kind])


class SeriesNet(nn.Module):
    """Three convolutions along time, the mean over time, two linear layers."""

    def __init__(self, channels: int, num_classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(channels, 32, 7, padding=3)
        self.relu1 = nn.ReLU()
        self.pool1 = nn.MaxPool1d(2)
        self.conv2 = nn.Conv1d(32, 64, 5, padding=2)
        self.relu2 = nn.ReLU()
        self.pool2 = nn.MaxPool1d(2)
        self.conv3 = nn.Conv1d(64, 64, 3, padding=1)
        self.relu3 = nn.ReLU()
        self.full4 = nn.Linear(64, 64)
        self.relu4 = nn.ReLU()
        self.full5 = nn.Linear(64, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits, shape (n, num_classes)."""
        x = self.pool1(self.relu1(self.conv1(x)))
        x = self.pool2(self.relu2(self.conv2(x)))
        x = self.relu3(self.conv3(x)).mean(2)
        logits: Tensor = self.full5(self.relu4(self.full4(x)))
        return logits


def pooled_features(root: Path, images: Tensor, kind: str = "efficientnet_lite0") -> Tensor:
    """What a network with ImageNet's weights passes to its classifier."""
    network: Any = deep_network(kind, root, 2, int(images.shape[-1])).eval()
    setattr(network, "classifier" if kind == "efficientnet_lite0" else "fc", nn.Identity())
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in INPUT[kind])
    with torch.no_grad():
        parts = [network((part.float() / 255 - mean) / std) for part in torch.split(images, 64)]
    return torch.cat(parts)
