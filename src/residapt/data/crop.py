"""Random crops of a batch of photographs, each blown up to the full size again."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from residapt.data.augment import warp
from residapt.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class RandomCrop:
    """A rectangle anywhere in the image, of a random share of its area and a random shape, and mirror images."""

    area: float = 0.5
    """Smallest share of the image's area."""
    ratio: float = 4 / 3
    """Largest ratio of the crop's sides, either way."""
    flip: float = 0.5
    """Probability of a left-right mirror image."""

    def __post_init__(self) -> None:
        if not 0 < self.area <= 1 or self.ratio < 1 or not 0 <= self.flip <= 1:
            raise ConfigError(
                f"RandomCrop needs 0 < area <= 1, ratio >= 1 and 0 <= flip <= 1, got area={self.area}, "
                f"ratio={self.ratio}, flip={self.flip}."
            )

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """A changed copy of float images (n, c, h, w)."""
        area, ratio, across, down, side = (torch.rand(len(images), generator=generator).to(images) for _ in range(5))
        share = self.area + (1 - self.area) * area
        stretch = self.ratio ** (ratio - 0.5)
        width, height = ((share.sqrt() * s).clamp(max=1.0) for s in (stretch, 1 / stretch))
        # In units of half an image: a crop of relative width w may be centred anywhere up to 1 - w from the middle.
        theta = torch.zeros(len(images), 2, 3, dtype=images.dtype, device=images.device)
        theta[:, 0, 0] = torch.where(side < self.flip, -width, width)
        theta[:, 1, 1] = height
        theta[:, 0, 2] = (1 - width) * (2 * across - 1)
        theta[:, 1, 2] = (1 - height) * (2 * down - 1)
        return warp(images, theta)
