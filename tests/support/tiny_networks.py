"""Two small networks and batches for them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from residapt.data.batches import Batch


class TinyMLP(nn.Module):
    """4 -> 6 -> 5 -> 3, in double precision; ``head`` is registered first, so that only calls give the order."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(5, 3)
        self.one = nn.Linear(4, 6)
        self.two = nn.Linear(6, 5)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.two(torch.tanh(self.one(x)))))


class TinyLeNet(nn.Module):
    """Convolution, batch norm, pooling, dropout, two fully connected layers, for 8x8 images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 3, 3)
        self.norm1 = nn.BatchNorm2d(3)
        self.drop1 = nn.Dropout(0.2)
        self.full2 = nn.Linear(27, 6)
        self.relu2 = nn.ReLU()
        self.full3 = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.norm1(self.conv1(x))), 2)
        return self.full3(self.relu2(self.full2(self.drop1(x.flatten(1)))))


def mlp_batch(few: bool = False, n: int = 6) -> Batch:
    g = torch.Generator().manual_seed(1)
    source = torch.randn(n, 4, generator=g, dtype=torch.float64)
    target = torch.randn(n, 4, generator=g, dtype=torch.float64) + 0.7
    labels = torch.arange(n) % 3
    return Batch(source, labels, target, *((target[:4] + 0.1, labels[:4]) if few else ()))


def image_batch(few: bool = False, n: int = 6) -> Batch:
    g = torch.Generator().manual_seed(1)
    source, target = torch.randn(n, 1, 8, 8, generator=g), 0.5 * torch.randn(n, 1, 8, 8, generator=g) + 0.5
    labels = torch.arange(n) % 3
    return Batch(source, labels, target, *((target[:4] + 0.1, labels[:4]) if few else ()))
