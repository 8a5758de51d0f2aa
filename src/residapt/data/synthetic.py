"""Two domains that need no download: digits printed by the program, and scikit-learn's handwritten ones."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from residapt.data.glyphs import glyph_bank
from residapt.data.imageset import ImageSet
from residapt.data.preprocess import resize
from residapt.errors import ConfigError

# Glyphs warped at a time. It bounds memory; another value would give other digits for the same seed.
_CHUNK = 2048
_BLUR_RADIUS = 3


@dataclass(frozen=True, kw_only=True)
class PrintStyle:
    """How much printed digits differ from each other; the defaults make the demo's source domain."""

    rotate: float = 12.0
    """Largest rotation in degrees, either way."""
    slant: float = 0.3
    """Largest slant, as the tangent of its angle, either way."""
    width: tuple[float, float] = (0.75, 1.25)
    """Range of the horizontal stretch."""
    height: tuple[float, float] = (0.95, 1.35)
    """Range of the vertical stretch; at 1 a digit fills two thirds of the image."""
    shift: float = 0.08
    """Largest shift, as a share of the image."""
    perspective: float = 0.1
    """Largest change of size across the image that comes from a tilted view."""
    wave: float = 0.03
    """Largest displacement by uneven paper, as a share of half the image."""
    blur: tuple[float, float] = (0.0, 1.0)
    """Range of the Gaussian's standard deviation in pixels."""
    ink: tuple[float, float] = (0.6, 1.0)
    """Range of the digit's brightness."""
    paper: tuple[float, float] = (0.0, 0.25)
    """Range of the background's brightness."""
    shade: float = 0.1
    """Largest unevenness of the background."""
    noise: float = 0.06
    """Largest standard deviation of the pixel noise."""
    invert: float = 0.2
    """Share of digits that are dark on bright."""


def printed_digits(count: int, *, size: int = 28, seed: int = 0, style: PrintStyle | None = None) -> ImageSet:
    """Grey printed digits in 19 fonts, all classes equally frequent; the same seed gives the same set."""
    if count < 1 or size < 8:
        raise ConfigError(f"printed_digits needs count >= 1 and size >= 8, got count={count}, size={size}.")
    random = torch.Generator().manual_seed(seed)
    labels = torch.randperm(count, generator=random) % 10
    parts = [_print(part, size, style or PrintStyle(), random) for part in torch.split(labels, _CHUNK)]
    return ImageSet(torch.cat(parts), labels, f"printed-digits-{seed}")


def handwritten_digits(*, size: int = 28) -> ImageSet:
    """The 1,797 handwritten digits that scikit-learn carries (8x8 pixels), enlarged to ``size``."""
    # Imported late: scikit-learn's data sets take a second, and most runs do not need them.
    from sklearn.datasets import load_digits

    data = load_digits()
    images = torch.from_numpy(data.images).float()[:, None] * (255 / 16)
    enlarged = resize(images, size).round().clamp(0, 255).to(torch.uint8)
    return ImageSet(enlarged, torch.from_numpy(data.target).long(), "handwritten-digits")


def _print(labels: Tensor, size: int, style: PrintStyle, random: torch.Generator) -> Tensor:
    bank = glyph_bank()
    n = len(labels)
    fonts = torch.randint(len(bank), (n,), generator=random)
    shapes = functional.grid_sample(bank[fonts, labels][:, None], _grid(n, size, style, random), align_corners=False)
    shapes = _blur(shapes, _between(n, style.blur, random))
    return (_paint(shapes, style, random) * 255).round().clamp(0, 255).to(torch.uint8)


def _grid(n: int, size: int, style: PrintStyle, random: torch.Generator) -> Tensor:
    """Where each output pixel reads its glyph, in [-1, 1]: wave, then affine map, then perspective."""

    def either_way(largest: float) -> Tensor:
        return _between(n, (-largest, largest), random)

    axis = (torch.arange(size) + 0.5) / size * 2 - 1
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    x, y = x + either_way(2 * style.shift), y + either_way(2 * style.shift)
    depth = 1 + either_way(style.perspective) * x + either_way(style.perspective) * y
    x = x + style.wave * torch.sin(math.pi * (_between(n, (0.5, 1.5), random) * y + either_way(1)))
    y = y + style.wave * torch.sin(math.pi * (_between(n, (0.5, 1.5), random) * x + either_way(1)))
    angle = either_way(math.radians(style.rotate))
    x, y = torch.cos(angle) * x + torch.sin(angle) * y, torch.cos(angle) * y - torch.sin(angle) * x
    x = (x + either_way(style.slant) * y) / _between(n, style.width, random)
    y = y / _between(n, style.height, random)
    return torch.stack([x / depth, y / depth], dim=-1)


def _blur(images: Tensor, sigma: Tensor) -> Tensor:
    """Blur each image by a Gaussian of its own width; one convolution with a group per image."""
    n, _, height, width = images.shape
    offsets = torch.arange(-_BLUR_RADIUS, _BLUR_RADIUS + 1)
    kernel = torch.exp(-0.5 * (offsets / sigma.view(n, 1).clamp_min(0.05)) ** 2)
    kernel = kernel / kernel.sum(1, keepdim=True)
    x = images.view(1, n, height, width)
    x = functional.conv2d(x, kernel.view(n, 1, -1, 1), padding=(_BLUR_RADIUS, 0), groups=n)
    x = functional.conv2d(x, kernel.view(n, 1, 1, -1), padding=(0, _BLUR_RADIUS), groups=n)
    return x.view(n, 1, height, width)


def _paint(shapes: Tensor, style: PrintStyle, random: torch.Generator) -> Tensor:
    """Ink on uneven paper, with noise, some of it dark on bright; ``shapes`` is the share of ink."""
    n, _, size, _ = shapes.shape
    ink, paper = _between(n, style.ink, random)[:, None], _between(n, style.paper, random)[:, None]
    patches = 2 * torch.rand(n, 1, 3, 3, generator=random) - 1
    shade = functional.interpolate(patches, (size, size), mode="bilinear", align_corners=True)
    paper = (paper + style.shade * shade).clamp(0, 1)
    image = paper + (ink - paper) * shapes
    strength = _between(n, (0, style.noise), random)[:, None]
    image = image + strength * torch.randn(image.shape, generator=random)
    inverted = torch.rand(n, 1, 1, 1, generator=random) < style.invert
    return torch.where(inverted, 1 - image, image)


def _between(n: int, limits: tuple[float, float], random: torch.Generator) -> Tensor:
    """One number per image, uniform within the limits, shape (n, 1, 1)."""
    low, high = limits
    return low + (high - low) * torch.rand(n, 1, 1, generator=random)
