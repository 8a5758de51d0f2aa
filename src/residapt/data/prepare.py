"""From decoded pixels to what a network reads: normalised floats, augmented in training."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from residapt.data.augment import Augment
from residapt.data.crop import RandomCrop
from residapt.data.domains import BatchTransform
from residapt.data.transforms import to_float

PHOTOGRAPH = 64
"""From this size on images count as photographs: cropped at random and mirrored."""


@dataclass(frozen=True)
class Normalise:
    """uint8 images as floats with the network's mean and std, then changed at random if ``augment`` is given."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    augment: BatchTransform | None = None

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """A batch of floats."""
        floats = to_float(images, self.mean, self.std)
        return floats if self.augment is None else self.augment(floats, generator)


def augment(images: Tensor, generator: torch.Generator) -> Tensor:
    """Crops and mirror images for photographs; shifts alone for small or grey pictures, which may be of text."""
    channels, size = images.shape[1], min(images.shape[2:])
    if size >= PHOTOGRAPH and channels == 3:
        return RandomCrop()(images, generator)
    return Augment(shift=round(size / 14))(images, generator)
