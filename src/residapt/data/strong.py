"""Weak and strong random changes of whatever a network reads: images, series, feature vectors.

A strong change makes another view of a sample in which a person would still see its class. The views of one sample are
meant to be far apart, so that a network which predicts them alike has to rely on what they have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from residapt.data.augment import Augment
from residapt.data.config import Strength

PHOTOGRAPH = 64
"""From this size on colour images count as photographs, which keep their polarity and may lose their colours."""

Change = Callable[..., Tensor]
"""A batch, and a generator if there is one, to a changed copy."""


@dataclass(frozen=True)
class Changes:
    """Random changes of a batch of one strength; ``mixed`` changes each sample weakly or strongly, half of them each.

    Example:
        >>> images = torch.rand(8, 3, 28, 28)
        >>> Changes("strong")(images).shape
        torch.Size([8, 3, 28, 28])
    """

    strength: Strength

    def __call__(self, batch: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A changed copy of floats: images (n, c, h, w), series (n, c, t) or features (n, d)."""
        if self.strength == "none":
            return batch
        if self.strength == "weak":
            return weak(batch, generator)
        if self.strength == "strong":
            return strong(batch, generator)
        chosen = _uniform(batch, (len(batch),), generator) < 0.5
        changed = batch.clone()
        for which, change in ((chosen, strong), (~chosen, weak)):
            if bool(which.any()):  # of a few samples it may be none
                changed[which] = change(batch[which], generator)
        return changed


def weak(batch: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Small shifts, turns, scalings and contrast of images; a little noise on anything else."""
    if batch.ndim == 4:
        return _geometry(batch, generator)
    return batch + 0.05 * _spread(batch) * _normal(batch, batch.shape, generator)


def strong(batch: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Images: geometry, colour, polarity, noise, an erased square; series: gain, offset, noise; features: dropout."""
    if not len(batch):
        return batch
    if batch.ndim == 4:
        return _strong_images(batch, generator)
    noise = _spread(batch) * _normal(batch, batch.shape, generator)
    if batch.ndim == 2:
        kept = (_uniform(batch, batch.shape, generator) >= 0.2).to(batch.dtype) / 0.8
        return kept * batch + 0.05 * noise
    per_channel = (*batch.shape[:2], *(1 for _ in batch.shape[2:]))
    gain = 1 + 0.4 * (_uniform(batch, per_channel, generator) - 0.5)
    offset = 0.4 * (_uniform(batch, per_channel, generator) - 0.5) * _spread(batch)
    return gain * batch + offset + 0.1 * noise


def _strong_images(images: Tensor, generator: torch.Generator | None) -> Tensor:
    count, channels, height, width = images.shape
    photograph = channels == 3 and min(height, width) >= PHOTOGRAPH
    images = _geometry(images, generator)
    if photograph:
        grey = _uniform(images, (count, 1, 1, 1), generator) < 0.2
        images = torch.where(grey, images.mean(dim=1, keepdim=True), images)
    else:
        low, high = images.amin(dim=(1, 2, 3), keepdim=True), images.amax(dim=(1, 2, 3), keepdim=True)
        inverted = _uniform(images, (count, 1, 1, 1), generator) < 0.5
        images = torch.where(inverted, low + high - images, images)
    spread = images.std(dim=(1, 2, 3), keepdim=True)
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    gain = 1 + 0.8 * (_uniform(images, (count, channels, 1, 1), generator) - 0.5)
    offset = (_uniform(images, (count, channels, 1, 1), generator) - 0.5) * spread
    images = mean + gain * (images - mean) + offset
    noise = 0.3 * _uniform(images, (count, 1, 1, 1), generator) * spread
    images = images + noise * _normal(images, images.shape, generator)
    return torch.where(_square(images, generator), mean, images)


def _geometry(images: Tensor, generator: torch.Generator | None) -> Tensor:
    shift = max(1, round(min(images.shape[2:]) / 14))
    changes = Augment(shift=shift, rotate=10, scale=0.1, shear=0.1, contrast=0.3, value_range=None)
    return changes(images, generator)


def _square(images: Tensor, generator: torch.Generator | None) -> Tensor:
    """Where a square of a quarter of the side lies, anywhere within the image; shape (n, 1, h, w)."""
    count, _, height, width = images.shape
    side = max(1, min(height, width) // 4)
    top = (_uniform(images, (count, 1), generator) * (height - side + 1)).floor()
    left = (_uniform(images, (count, 1), generator) * (width - side + 1)).floor()
    down, across = torch.arange(height, device=images.device), torch.arange(width, device=images.device)
    rows = (down >= top) & (down < top + side)
    columns = (across >= left) & (across < left + side)
    return (rows[:, :, None] & columns[:, None, :])[:, None]


def _spread(batch: Tensor) -> Tensor:
    """Standard deviation over the batch: of each feature, or of each channel."""
    others = tuple(dim for dim in range(batch.ndim) if dim != 1)
    return batch.std(dim=others, keepdim=True, correction=0)


def _uniform(like: Tensor, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
    device = like.device if generator is None else generator.device
    return torch.rand(shape, generator=generator, device=device).to(like.device)


def _normal(like: Tensor, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
    device = like.device if generator is None else generator.device
    return torch.randn(shape, generator=generator, device=device).to(like)
