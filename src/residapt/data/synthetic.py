"""Two domains that need no download: printed digits drawn by the program, and scikit-learn's handwritten ones."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from residapt.data.glyphs import glyph_bank
from residapt.data.imageset import ImageSet
from residapt.data.transforms import resize
from residapt.errors import ConfigError

# Glyphs warped at a time; it bounds memory, and is part of the random sequence, so do not make it a setting.
_CHUNK = 2048


@dataclass(frozen=True, kw_only=True)
class PrintStyle:
    """How much printed digits differ from each other; the defaults make the demo's source domain."""

    rotate: float = 12.0
    slant: float = 0.30
    narrow: tuple[float, float] = (0.75, 1.25)
    tall: tuple[float, float] = (0.95, 1.35)
    shift: float = 0.08
    perspective: float = 0.15
    wave: float = 0.04
    blur: tuple[float, float] = (0.0, 1.2)
    ink: tuple[float, float] = (0.6, 1.0)
    paper: tuple[float, float] = (0.0, 0.25)
    shade: float = 0.1
    noise: float = 0.06
    invert: float = 0.2


def printed_digits(count: int, *, size: int = 28, seed: int = 0, style: PrintStyle | None = None) -> ImageSet:
    if count < 1 or size < 8:
        raise ConfigError(f"printed_digits needs count >= 1 and size >= 8, got count={count} and size={size}.")
    random = torch.Generator().manual_seed(seed)
    labels = torch.randperm(count, generator=random) % 10
    parts = [_print(part, size, style or PrintStyle(), random) for part in labels.split(_CHUNK)]
    return ImageSet(torch.cat(parts), labels, f"printed-digits-{seed}")


def _print(labels: Tensor, size: int, style: PrintStyle, random: torch.Generator) -> Tensor:
    bank = glyph_bank()
    fonts = torch.randint(len(bank), labels.shape, generator=random)
    shapes = F.grid_sample(
        bank[fonts, labels][:, None], _grid(len(labels), size, style, random), padding_mode="zeros", align_corners=False
    )
    shapes = _blur(shapes, _between(len(labels), style.blur, random))
    return (_paint(shapes, style, random) * 255).round().clamp(0, 255).to(torch.uint8)


def _grid(n: int, size: int, style: PrintStyle, random: torch.Generator) -> Tensor:
    """Where each output pixel reads its glyph: a projective map after a slow wave."""
    axis = (torch.arange(size) + 0.5) / size * 2 - 1
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    u = lambda: 2 * torch.rand(n, 1, 1, generator=random) - 1
    x, y = x + style.shift * u() * 2, y + style.shift * u() * 2
    w = 1 + style.perspective * (u() * x + u() * y)
    x = x + style.wave * torch.sin(math.pi * (y * (1 + 0.5 * u()) + u()))
    y = y + style.wave * torch.sin(math.pi * (x * (1 + 0.5 * u()) + u()))
    angle, slant = math.radians(style.rotate) * u(), style.slant * u()
    cos, sin = torch.cos(angle), torch.sin(angle)
    x, y = cos * x + sin * y, cos * y - sin * x
    x = x + slant * y
    x = x / _between(n, style.narrow, random)
    y = y / _between(n, style.tall, random)
    return torch.stack([x / w, y / w], dim=-1)


def _between(n, limits, random):
    low, high = limits
    return low + (high - low) * torch.rand(n, 1, 1, generator=random)


def _blur(images: Tensor, sigma: Tensor) -> Tensor:
    """Gaussian of its own width for each image."""
    offsets = torch.arange(-3.0, 4.0)
    kernel = torch.exp(-0.5 * (offsets / sigma.view(-1, 1).clamp_min(0.05)) ** 2)
    kernel = kernel / kernel.sum(1, keepdim=True)
    n, _, h, w = images.shape
    x = images.view(1, n, h, w)
    x = F.conv2d(x, kernel.view(n, 1, 7, 1), padding=(3, 0), groups=n)
    x = F.conv2d(x, kernel.view(n, 1, 1, 7), padding=(0, 3), groups=n)
    return x.view(n, 1, h, w)


def _paint(shapes: Tensor, style: PrintStyle, random: torch.Generator) -> Tensor:
    n, _, size, _ = shapes.shape
    ink, paper = _between(n, style.ink, random)[:, None], _between(n, style.paper, random)[:, None]
    ramp = F.interpolate(torch.rand(n, 1, 3, 3, generator=random), (size, size), mode="bilinear", align_corners=True)
    paper = (paper + style.shade * (2 * ramp - 1)).clamp(0, 1)
    image = paper + (ink - paper) * shapes
    image = image + style.noise * torch.rand(n, 1, 1, 1, generator=random) * torch.randn(image.shape, generator=random)
    inverted = torch.rand(n, 1, 1, 1, generator=random) < style.invert
    return torch.where(inverted, 1 - image, image)


def handwritten_digits(*, size: int = 28) -> ImageSet:
    from sklearn.datasets import load_digits

    data = load_digits()
    images = torch.from_numpy(data.images).float()[:, None] * (255 / 16)
    big = resize(images, size).round().clamp(0, 255).to(torch.uint8)
    return ImageSet(big, torch.from_numpy(data.target).long(), "handwritten-digits")
