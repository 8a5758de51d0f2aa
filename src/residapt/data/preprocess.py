"""From decoded pixels to what a network reads: resized, normalised, augmented in training; no loop over samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from residapt.data.augment import Augment, RandomCrop
from residapt.data.domains import BatchTransform
from residapt.errors import ConfigError, DataError

GREY_WEIGHTS = (0.2989, 0.5870, 0.1140)
"""Red, green and blue in a grey value, as in ADDA's code."""

PHOTOGRAPH = 64
"""From this size on images count as photographs: cropped at random and mirrored."""

# Images turned into floats at a time: a whole SVHN in float32 would take a gigabyte.
_CHUNK = 4096


def to_grey(images: Tensor) -> Tensor:
    """One channel out of three, in the input's type; grey images are returned as they are."""
    _require_images(images, (1, 3))
    if images.shape[1] == 1:
        return images
    weights = torch.tensor(GREY_WEIGHTS, device=images.device).view(1, 3, 1, 1)

    def mix(part: Tensor) -> Tensor:
        return _back((part.to(_float_type(part)) * weights).sum(1, keepdim=True), images.dtype)

    return torch.cat([mix(part) for part in torch.split(images, _CHUNK)])


def to_rgb(images: Tensor) -> Tensor:
    """Three channels out of one, by repetition; colour images are returned as they are."""
    _require_images(images, (1, 3))
    return images.repeat(1, 3, 1, 1) if images.shape[1] == 1 else images


def resize(images: Tensor, size: int | tuple[int, int], *, antialias: bool = False) -> Tensor:
    """Bilinear, with pixel centres aligned, in the input's type. Use ``antialias`` when shrinking a lot."""
    height, width = (size, size) if isinstance(size, int) else size
    if min(height, width) < 1:
        raise ConfigError(f"resize needs a size of 1 or more, got {size}.")
    _require_images(images)
    if tuple(images.shape[2:]) == (height, width):
        return images

    def scale(part: Tensor) -> Tensor:
        part = part.to(_float_type(part))
        return _back(functional.interpolate(part, (height, width), mode="bilinear", antialias=antialias), images.dtype)

    return torch.cat([scale(part) for part in torch.split(images, _CHUNK)])


def to_float(images: Tensor, mean: float | Sequence[float] = 0.0, std: float | Sequence[float] = 1.0) -> Tensor:
    r""":math:`(x/255 - \text{mean}) / \text{std}` per channel; float images are not divided by 255."""
    _require_images(images)
    scaled = images.float() / 255 if images.dtype == torch.uint8 else images
    return (scaled - _per_channel(mean, scaled, "mean")) / _per_channel(std, scaled, "std")


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


def _per_channel(values: float | Sequence[float], images: Tensor, what: str) -> Tensor:
    out = torch.as_tensor(values, dtype=images.dtype, device=images.device).flatten()
    if len(out) not in (1, images.shape[1]):
        raise DataError(
            f"{what} has {len(out)} values, but the images have {images.shape[1]} channels. "
            "Give one value, or one per channel."
        )
    return out.view(1, -1, 1, 1)


def _require_images(images: Tensor, channels: tuple[int, ...] = ()) -> None:
    if images.ndim != 4 or (channels and images.shape[1] not in channels):
        wanted = " or ".join(map(str, channels)) or "c"
        raise DataError(f"images must have shape (n, {wanted}, h, w), got {tuple(images.shape)}.")


def _float_type(images: Tensor) -> torch.dtype:
    return images.dtype if images.is_floating_point() else torch.float32


def _back(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Rounded and clipped when the input was uint8."""
    return values.round().clamp(0, 255).to(torch.uint8) if dtype == torch.uint8 else values.to(dtype)
