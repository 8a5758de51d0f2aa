"""The helpers of Domain Separation Networks: private encoders and the decoder, for any shape of input.

Images get the authors' ``default_encoder`` and ``small_decoder``, their widths scaled to the shared
features; inputs that are not images get perceptrons of the same depth. All of it is thrown away after
training.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

_CODE = 300
"""Units of the decoder's first layer, laid out as 3 maps of 10 x 10."""
_HIDDEN = 128
"""Units of the hidden layer that stands for the two convolutions when inputs are not images."""


def _dense(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU())


def _convolution(inputs: int, outputs: int, kernel: int) -> nn.Sequential:
    layer = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.ReLU())


def private_encoder(shape: torch.Size, width: int) -> nn.Module:
    """Encoder of one domain: two 5x5 convolutions (32, 64), each pooled, and a fully connected layer."""
    if len(shape) != 3:
        return nn.Sequential(nn.Flatten(), _dense(math.prod(shape), _HIDDEN), _dense(_HIDDEN, width))
    channels, height, width_in = shape
    # Pooling as TensorFlow's SAME does: an odd side is rounded up.
    side = math.ceil(math.ceil(height / 2) / 2) * math.ceil(math.ceil(width_in / 2) / 2)
    return nn.Sequential(
        _convolution(channels, 32, 5),
        nn.MaxPool2d(2, ceil_mode=True),
        _convolution(32, 64, 5),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.Flatten(),
        _dense(64 * side, width),
    )


def decoder(shape: torch.Size, width: int) -> nn.Module:
    """From shared plus private features back to a sample of ``shape``; one for both domains."""
    if len(shape) == 3:
        return ImageDecoder(shape, width)
    return nn.Sequential(_dense(width, _CODE), nn.Linear(_CODE, math.prod(shape)), nn.Unflatten(1, tuple(shape)))


class ImageDecoder(nn.Module):
    """300 units as 3 x 10 x 10, two 3x3 convolutions (16), nearest-neighbour resize, two more."""

    def __init__(self, shape: torch.Size, width: int) -> None:
        super().__init__()
        channels, height, width_out = shape
        self.size = (height, width_out)
        self.code = _dense(width, _CODE)
        self.small = nn.Sequential(_convolution(3, 16, 3), _convolution(16, 16, 3))
        self.large = nn.Sequential(_convolution(16, 16, 3), nn.Conv2d(16, channels, 3, padding=1))

    def forward(self, features: Tensor) -> Tensor:
        """Images."""
        maps = self.small(self.code(features).unflatten(1, (3, 10, 10)))
        images: Tensor = self.large(functional.interpolate(maps, size=self.size, mode="nearest"))
        return images
