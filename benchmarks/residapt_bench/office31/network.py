"""The network of the Office-31 benchmark: frozen first stages, a trained rest, a bottleneck before the classifier."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from residapt.errors import ModelError
from residapt.models.heads import with_bottleneck
from residapt.models.specs import build_model
from residapt.models.stages import FrozenStages, cut_after
from residapt.models.standardise import standardised
from residapt_bench.plan import OfficeSetup, Plan

CLASSES = 31


class OfficeNetwork(OfficeSetup):
    """What decides the network, its frozen stages and their output."""

    arch: str
    """Model spec."""
    standardise: bool = False
    """Whether each image is standardised by itself before the first stage."""

    @classmethod
    def of(cls, plan: Plan) -> OfficeNetwork:
        """The network of a plan."""
        assert isinstance(plan.setup, OfficeSetup)
        return cls(**plan.setup.model_dump(), arch=plan.arch, standardise=plan.standardise)


def frozen_stages(network: OfficeNetwork, root: Path) -> FrozenStages:
    """The stages whose output is cached."""
    stages = _parts(network, root)[0].to(memory_format=torch.channels_last)
    if network.standardise:
        standardised(stages.model)
    return stages


def trained_part(network: OfficeNetwork, root: Path, seed: int) -> nn.Module:
    """What is trained: the stages after the frozen ones and new layers at the end, whose start the seed decides."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        rest = with_bottleneck(_parts(network, root)[1], num_classes=CLASSES, width=network.bottleneck)
    _pad_before(rest)
    return rest


def _parts(network: OfficeNetwork, root: Path) -> tuple[FrozenStages, nn.Module]:
    weights = None if network.weights is None else root / network.weights
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # without weights, the frozen stages must be the same ones in every run
        whole = build_model(network.arch, num_classes=CLASSES, image_size=network.image_size, weights=weights)
    example = torch.zeros(2, 3, network.image_size, network.image_size)
    return cut_after(whole, network.freeze, example)


class PadFirst(nn.Conv2d):
    """A convolution that pads its input itself.

    Where the kernel is larger than the map, as EfficientNet's last 5x5 ones on 4x4, the CPU's weight gradient takes
    half the time when it finds a map that is padded already. The numbers are the same.
    """

    def forward(self, input: Tensor) -> Tensor:
        """The same as the convolution with padding."""
        if isinstance(self.padding, str):
            raise ModelError(f"padding '{self.padding}' is not a number of pixels.")
        down, across = self.padding
        padded = functional.pad(input, (across, across, down, down))
        return functional.conv2d(padded, self.weight, self.bias, self.stride, 0, self.dilation, self.groups)


def _pad_before(model: nn.Module) -> None:
    """Let depthwise convolutions with large kernels pad first; weights and names stay."""
    for module in model.modules():
        if type(module) is nn.Conv2d and module.groups == module.in_channels and module.kernel_size >= (5, 5):
            module.__class__ = PadFirst
