"""Random changes to a batch of images, reproducible from one generator."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from residapt.errors import ConfigError, DataError

_PADDING = ("zeros", "border", "reflection")


@dataclass(frozen=True, kw_only=True)
class Augment:
    """Flip, shift, small affine map, contrast and polarity; a change whose value is 0 is off.

    Every geometric change goes into one affine map per image, so that pixels are interpolated only once.
    """

    flip: float = 0.0
    """Probability of a left-right mirror image. Leave at 0 for digits and text."""
    shift: float = 0.0
    """Largest shift in pixels, as a random crop of a padded image gives; whole pixels."""
    rotate: float = 0.0
    """Largest rotation in degrees, either way."""
    scale: float = 0.0
    """Largest relative change of size: 0.1 is 90 % to 110 %, for height and width apart."""
    shear: float = 0.0
    """Largest slant, as the tangent of its angle, either way."""
    contrast: float = 0.0
    """Largest relative change of the distance to the image's mean."""
    invert: float = 0.0
    """Probability of exchanging dark and bright."""
    padding: str = "border"
    """What lies outside the image: ``zeros``, ``border`` (the edge is repeated) or ``reflection``."""
    value_range: tuple[float, float] | None = (0.0, 1.0)
    """Values of black and white, for ``invert``: (-1, 1) after normalising with mean 0.5 and std 0.5. None takes each
    image's own darkest and brightest value."""

    def __post_init__(self) -> None:
        for name in ("flip", "invert"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"augment.{name} is a probability from 0 to 1, got {getattr(self, name)}.")
        for name, limit in (
            ("shift", math.inf),
            ("rotate", 180.0),
            ("scale", 1.0),
            ("shear", 1.0),
            ("contrast", 1.0),
        ):
            if not 0 <= getattr(self, name) <= limit or (name == "scale" and self.scale == 1):
                raise ConfigError(f"augment.{name} must be from 0 to {limit:g}, got {getattr(self, name)}.")
        if self.padding not in _PADDING:
            raise ConfigError(f"augment.padding must be one of {', '.join(_PADDING)}, got {self.padding!r}.")

    def __call__(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A changed copy of float images (n, c, h, w); the generator may live on another device."""
        if images.ndim != 4 or not images.is_floating_point():
            raise DataError(
                f"Augment needs float images of shape (n, c, h, w), got {images.dtype} of shape "
                f"{tuple(images.shape)}. Call to_float first."
            )
        if any((self.flip, self.shift, self.rotate, self.scale, self.shear)):
            images = self._warp(images, generator)
        if self.contrast:
            factor = 1 + self.contrast * _uniform(images, generator).view(-1, 1, 1, 1)
            mean = images.mean(dim=(1, 2, 3), keepdim=True)
            images = mean + factor * (images - mean)
        if self.invert:
            chosen = _chance(images, self.invert, generator).view(-1, 1, 1, 1)
            images = torch.where(chosen, self._ends(images) - images, images)
        return images

    def _ends(self, images: Tensor) -> Tensor | float:
        """Black plus white."""
        if self.value_range is not None:
            return sum(self.value_range)
        return images.amin(dim=(1, 2, 3), keepdim=True) + images.amax(dim=(1, 2, 3), keepdim=True)

    def _warp(self, images: Tensor, generator: torch.Generator | None) -> Tensor:
        height, width = images.shape[2:]
        theta = affine_matrices(
            angle=math.radians(self.rotate) * _uniform(images, generator),
            scale_x=1 + self.scale * _uniform(images, generator),
            scale_y=1 + self.scale * _uniform(images, generator),
            shear=self.shear * _uniform(images, generator),
        )
        # In units of half the width and half the height, a rotation or slant of an oblong image is not one.
        theta[:, 0, 1] *= height / width
        theta[:, 1, 0] *= width / height
        # affine_grid speaks of an image two units wide, whatever its number of pixels.
        theta[:, 0, 2] = (self.shift * _uniform(images, generator)).round() * 2 / width
        theta[:, 1, 2] = (self.shift * _uniform(images, generator)).round() * 2 / height
        theta[:, 0] *= torch.where(_chance(images, self.flip, generator), -1.0, 1.0)[:, None]
        return warp(images, theta, padding=self.padding)


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
        n, _, rows, columns = images.shape
        grid = torch.empty(n, rows, columns, 2, dtype=images.dtype, device=images.device)
        # What affine_grid would give: a third of the time, since crops are upright.
        x = torch.where(side < self.flip, -width, width)[:, None] * _centres(columns, images)
        y = height[:, None] * _centres(rows, images)
        grid[..., 0] = (x + ((1 - width) * (2 * across - 1))[:, None])[:, None, :]
        grid[..., 1] = (y + ((1 - height) * (2 * down - 1))[:, None])[:, :, None]
        return functional.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)


def _centres(count: int, like: Tensor) -> Tensor:
    """Centres of pixels in a row, from -1 at its left edge to 1 at its right."""
    return (2 * torch.arange(count, dtype=like.dtype, device=like.device) + 1) / count - 1


def affine_matrices(angle: Tensor, scale_x: Tensor, scale_y: Tensor, shear: Tensor) -> Tensor:
    r"""(n, 2, 3) maps from output to input coordinates, :math:`S^{-1} H R` without translation."""
    cos, sin, zero = torch.cos(angle), torch.sin(angle), torch.zeros_like(angle)
    top = torch.stack([(cos - shear * sin) / scale_x, (sin + shear * cos) / scale_x, zero], dim=1)
    bottom = torch.stack([-sin / scale_y, cos / scale_y, zero], dim=1)
    return torch.stack([top, bottom], dim=1)


def warp(images: Tensor, theta: Tensor, *, size: int | None = None, padding: str = "border") -> Tensor:
    """Resample each image through its own affine map, bilinearly, to ``size`` pixels or its own size."""
    n, channels, height, width = images.shape
    shape = [n, channels, size or height, size or width]
    grid = functional.affine_grid(theta, shape, align_corners=False)
    return functional.grid_sample(images, grid, mode="bilinear", padding_mode=padding, align_corners=False)


def _uniform(images: Tensor, generator: torch.Generator | None) -> Tensor:
    """One number in [-1, 1) per image."""
    device = generator.device if generator is not None else images.device
    drawn = torch.rand(len(images), generator=generator, device=device)
    return (2 * drawn - 1).to(images)


def _chance(images: Tensor, probability: float, generator: torch.Generator | None) -> Tensor:
    return (_uniform(images, generator) + 1) / 2 < probability
