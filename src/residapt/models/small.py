"""A small network for grey patches, in the shape of the paper's UAV experiment."""

from __future__ import annotations

from torch import Tensor, nn

from residapt.models.lenet import pooled_side


class UavNet(nn.Module):
    """Three times convolution and pooling, then two fully connected layers; 40x40 grey patches, two classes.

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
