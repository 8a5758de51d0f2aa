"""Networks that residapt defines itself: LeNet, SvhNet, DTN and UavNet."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from residapt.errors import ConfigError, ModelError

_CONSTRAINED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def pooled_side(image_size: int, kernels: tuple[int, ...]) -> int:
    """Side of the map left by valid convolutions of these kernels, each followed by a 2x2 pooling."""
    side = image_size
    for kernel in kernels:
        side = (side - kernel + 1) // 2
    if side < 1:
        raise ModelError(
            f"image_size={image_size} is too small for kernels {kernels}, each followed by a 2x2 pooling. "
            "Use larger images."
        )
    return side


class LeNet(nn.Module):
    """LeNet as in ADDA (Tzeng et al. 2017): 431,080 parameters for one channel and ten classes.

    20-50-500-10 with 5x5 valid convolutions. The layer names are those of the paper's rank table.
    Activations are modules of their own, so that a forward hook can read features after the non-linearity (``relu3``)
    as well as before it (``full3``).
    """

    def __init__(self, in_channels: int = 1, num_classes: int = 10, *, image_size: int = 28) -> None:
        super().__init__()
        self.image_size = image_size
        side = pooled_side(image_size, (5, 5))
        self.conv1 = nn.Conv2d(in_channels, 20, 5)
        self.relu1 = nn.ReLU()
        self.pool1 = nn.MaxPool2d(2)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.relu2 = nn.ReLU()
        self.pool2 = nn.MaxPool2d(2)
        self.full3 = nn.Linear(50 * side * side, 500)
        self.relu3 = nn.ReLU()
        self.full4 = nn.Linear(500, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits, shape (n, num_classes)."""
        x = self.pool1(self.relu1(self.conv1(x)))
        x = self.pool2(self.relu2(self.conv2(x)))
        logits: Tensor = self.full4(self.relu3(self.full3(x.flatten(1))))
        return logits


class GaninLeNet(nn.Module):
    """DANN's MNIST network, 32-48-100-100-10 with 5x5 valid convolutions: 127,290 parameters."""

    def __init__(self, in_channels: int = 1, num_classes: int = 10, *, image_size: int = 28) -> None:
        super().__init__()
        self.image_size = image_size
        side = pooled_side(image_size, (5, 5))
        self.conv1 = nn.Conv2d(in_channels, 32, 5)
        self.relu1 = nn.ReLU()
        self.pool1 = nn.MaxPool2d(2)
        self.conv2 = nn.Conv2d(32, 48, 5)
        self.relu2 = nn.ReLU()
        self.pool2 = nn.MaxPool2d(2)
        self.full3 = nn.Linear(48 * side * side, 100)
        self.relu3 = nn.ReLU()
        self.full4 = nn.Linear(100, 100)
        self.relu4 = nn.ReLU()
        self.full5 = nn.Linear(100, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits, shape (n, num_classes)."""
        x = self.pool1(self.relu1(self.conv1(x)))
        x = self.pool2(self.relu2(self.conv2(x)))
        x = self.relu3(self.full3(x.flatten(1)))
        logits: Tensor = self.full5(self.relu4(self.full4(x)))
        return logits


class SvhNet(nn.Module):
    """DANN's network for house numbers (Ganin et al. 2016): 31,795,146 parameters for RGB and ten classes.

    64-64-128 convolutions 5x5, then 3072-2048-10.
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


class DTN(nn.Module):
    """DTN, the digits network of CDAN (Long et al. 2018) and SHOT (Liang et al. 2020).

    64-128-256 strided convolutions, a 512-wide layer and a classifier, all but the last batch-normalised.
    ``fc_params`` is the 512-wide feature that domain classifiers read; 32x32 images by default.
    """

    def __init__(self, in_channels: int = 3, num_classes: int = 10, *, image_size: int = 32) -> None:
        super().__init__()
        self.image_size = image_size
        side = -(-image_size // 8)
        if side < 1:
            raise ModelError(f"image_size={image_size} is too small for DTN. Use images of at least one pixel.")
        self.conv_params = nn.Sequential(*_block(in_channels, 64, 0.1), *_block(64, 128, 0.3), *_block(128, 256, 0.5))
        self.fc_params = nn.Sequential(
            nn.Linear(256 * side * side, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Dropout(0.5)
        )
        self.classifier = nn.Linear(512, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits, shape (n, num_classes)."""
        logits: Tensor = self.classifier(self.fc_params(self.conv_params(x).flatten(1)))
        return logits


def _block(in_channels: int, out_channels: int, dropout: float) -> list[nn.Module]:
    return [
        nn.Conv2d(in_channels, out_channels, 5, stride=2, padding=2),
        nn.BatchNorm2d(out_channels),
        nn.Dropout2d(dropout),
        nn.ReLU(),
    ]


class UavNet(nn.Module):
    """The shape of the network in the paper's UAV experiment, for grey patches.

    Three times convolution and pooling, then two fully connected layers; 40x40 grey patches, two classes.
    The paper gives the depth only; the filter counts (32-64-128-256) are this library's choice.
    """

    def __init__(self, in_channels: int = 1, num_classes: int = 2, *, image_size: int = 40) -> None:
        super().__init__()
        self.image_size = image_size
        side = pooled_side(image_size, (5, 5, 3))
        self.conv1 = nn.Conv2d(in_channels, 32, 5)
        self.relu1 = nn.ReLU()
        self.pool1 = nn.MaxPool2d(2)
        self.conv2 = nn.Conv2d(32, 64, 5)
        self.relu2 = nn.ReLU()
        self.pool2 = nn.MaxPool2d(2)
        self.conv3 = nn.Conv2d(64, 128, 3)
        self.relu3 = nn.ReLU()
        self.pool3 = nn.MaxPool2d(2)
        self.full4 = nn.Linear(128 * side * side, 256)
        self.relu4 = nn.ReLU()
        self.full5 = nn.Linear(256, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits, shape (n, num_classes)."""
        x = self.pool1(self.relu1(self.conv1(x)))
        x = self.pool2(self.relu2(self.conv2(x)))
        x = self.pool3(self.relu3(self.conv3(x)))
        logits: Tensor = self.full5(self.relu4(self.full4(x.flatten(1))))
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
