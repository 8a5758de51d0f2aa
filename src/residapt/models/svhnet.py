"""SvhNet, DANN's network for house numbers (Ganin et al. 2016), and the constraint on its weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from residapt.errors import ConfigError, ModelError

_CONSTRAINED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


class SvhNet(nn.Module):
    """64-64-128 convolutions 5x5, then 3072-2048-10: 31,795,146 parameters for RGB and ten classes.

    Padding is SAME in the convolutions and the poolings; ``ceil_mode`` pads a pooling at the bottom and right
    only, as TensorFlow's SAME does. The dropout rates are those of Srivastava et al. (2014), from the input
    on. Domain classifiers usually read ``drop3`` (8192 values after flattening) or ``relu5`` (2048).
    """

    def __init__(self, in_channels: int = 3, num_classes: int = 10, *, image_size: int = 32) -> None:
        super().__init__()
        self.image_size = image_size
        side = image_size // 4
        if side < 1:
            raise ModelError(f"image_size={image_size} is too small for SvhNet. Use images of 4x4 pixels or more.")
        self.drop0 = nn.Dropout(0.1)
        self.conv1 = nn.Conv2d(in_channels, 64, 5, padding=2)
        self.relu1 = nn.ReLU()
        self.pool1 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.drop1 = nn.Dropout(0.25)
        self.conv2 = nn.Conv2d(64, 64, 5, padding=2)
        self.relu2 = nn.ReLU()
        self.pool2 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.drop2 = nn.Dropout(0.25)
        self.conv3 = nn.Conv2d(64, 128, 5, padding=2)
        self.relu3 = nn.ReLU()
        self.drop3 = nn.Dropout(0.5)
        self.full4 = nn.Linear(128 * side * side, 3072)
        self.relu4 = nn.ReLU()
        self.drop4 = nn.Dropout(0.5)
        self.full5 = nn.Linear(3072, 2048)
        self.relu5 = nn.ReLU()
        self.drop5 = nn.Dropout(0.5)
        self.full6 = nn.Linear(2048, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits, shape (n, num_classes)."""
        x = self.drop1(self.pool1(self.relu1(self.conv1(self.drop0(x)))))
        x = self.drop2(self.pool2(self.relu2(self.conv2(x))))
        x = self.drop3(self.relu3(self.conv3(x)))
        x = self.drop4(self.relu4(self.full4(x.flatten(1))))
        x = self.drop5(self.relu5(self.full5(x)))
        logits: Tensor = self.full6(x)
        return logits


@torch.no_grad()
def max_norm_(module: nn.Module, limit: float = 4.0) -> None:
    r"""Project the incoming weights of every output unit onto :math:`\|w\|_2 \le` ``limit``, in place.

    Call it after each optimiser step (Srivastava et al. 2014 use 4 for SVHN). Biases are left alone.
    """
    if not limit > 0:
        raise ConfigError(f"max_norm_ limit must be positive, got {limit}.")
    for layer in module.modules():
        if isinstance(layer, _CONSTRAINED):
            rows = layer.weight.flatten(1)
            norm = rows.norm(dim=1)
            # Not limit / max(norm, limit): that is not always exactly 1, and rows inside would drift.
            factor = torch.where(norm > limit, limit / norm, torch.ones_like(norm))
            layer.weight.mul_(factor.view(-1, *[1] * (layer.weight.ndim - 1)))
