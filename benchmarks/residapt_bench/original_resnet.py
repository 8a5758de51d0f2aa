"""ResNet-50 as He et al. (2016) published it, which the papers of its time used.

The stride of a stage sits in its first 1x1 convolution; torchvision's network of the same names has it in the 3x3 one.
Both layouts take the same tensors, so that weights of one load into the other, and give worse features there.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from residapt.models.specs import build_model


class EverySecondPixel(nn.Module):
    """What a 1x1 convolution with stride 2 reads of its input."""

    def forward(self, x: Tensor) -> Tensor:
        """The pixels of even rows and columns."""
        return x[..., ::2, ::2]


def original_resnet50(num_classes: int) -> nn.Module:
    """ResNet-50 in the original layout, with torchvision's names and random weights.

    Nothing but the first 1x1 convolutions of ``layer4`` reads what ``layer3`` gives, every second pixel of it. The
    others are left out at the end of ``layer3`` already: the same result, and a quarter of the numbers to keep where
    the stages up to ``layer3`` are frozen and their output is kept.
    """
    network: Any = build_model("torchvision:resnet50", num_classes=num_classes)
    for stage in (network.layer2, network.layer3):
        stage[0].conv1.stride, stage[0].conv2.stride = (2, 2), (1, 1)
    first = network.layer4[0]
    for convolution in (first.conv1, first.conv2, first.downsample[0]):
        convolution.stride = (1, 1)
    network.layer3.append(EverySecondPixel())
    built: nn.Module = network
    return built
