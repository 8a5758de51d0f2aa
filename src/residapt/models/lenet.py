"""LeNet as in ADDA (Tzeng et al. 2017), and the smaller LeNet of Ganin et al. (2016)."""

from __future__ import annotations

from torch import Tensor, nn

from residapt.errors import ModelError


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
    """20-50-500-10 with 5x5 valid convolutions: 431,080 parameters for one channel and ten classes.

    The layer names are those of the paper's rank table. Activations are modules of their own, so that a
    forward hook can read features after the non-linearity (``relu3``) as well as before it (``full3``).
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
