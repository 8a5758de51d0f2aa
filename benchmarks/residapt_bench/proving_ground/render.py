"""Renderings: uint8 pictures in, uint8 pictures out, as arrays of shape (n, channels, height, width).

Random numbers come from the generator given. Arithmetic is on integers or on float64, element by element, and pictures
are resized by Pillow, in integers: the same pixels whatever the number of threads.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

Pixels = NDArray[np.uint8]
Numbers = NDArray[np.float64]
Renderer = Callable[..., Pixels]

_GREY = (299, 587, 114)
_CHUNK = 64
# Side of the enlarged digits on which outlines are taken, in multiples of the digit's own.
_ENLARGED = 3


def to_pixels(values: Numbers) -> Pixels:
    """Rounded and clipped."""
    return np.clip(np.floor(values + 0.5), 0, 255).astype(np.uint8)


def to_channels(images: Pixels, channels: int) -> Pixels:
    """Grey out of colour or the other way round; unchanged where the number is right already."""
    if images.shape[1] == channels:
        return images
    if channels == 3:
        return np.repeat(images, 3, axis=1)
    red, green, blue = (images[:, c : c + 1].astype(np.int32) * w for c, w in enumerate(_GREY))
    return ((red + green + blue + 500) // 1000).astype(np.uint8)


def resized(images: Pixels, size: int) -> Pixels:
    """Pillow's bilinear resizing, which averages when it shrinks."""
    if images.shape[-2:] == (size, size):
        return images
    flat = images.reshape(-1, *images.shape[-2:])
    out = [np.asarray(Image.fromarray(one).resize((size, size), Image.Resampling.BILINEAR)) for one in flat]
    return np.stack(out).reshape(*images.shape[:2], size, size)


def _uniform(rng: np.random.Generator, n: int, limits: tuple[float, float], *shape: int) -> Numbers:
    """``n`` numbers (or blocks of ``shape``) within the limits, ready to multiply images with."""
    low, high = limits
    values: Numbers = low + (high - low) * rng.random((n, *(shape or (1, 1, 1))))
    return values


# Digits


def over_photographs(
    digits: Pixels, cuts: Pixels, rng: np.random.Generator, *, contrast: float, brighter: float
) -> Pixels:
    """Each digit as ink of one random colour over a cut-out of a photograph.

    The grey value of a digit is how much its ink covers. Ink and the cut-out's mean differ by ``contrast`` or more grey
    values; a share ``brighter`` of the digits is brighter than what is behind, where that leaves room for it.
    """
    ink = _contrasting(cuts.reshape(*cuts.shape[:2], -1).mean(axis=2), rng, contrast, brighter)
    return covered(digits, cuts, ink)


def covered(digits: Pixels, paper: Pixels, ink: Pixels) -> Pixels:
    """``ink`` (n, 3) laid over ``paper`` as far as the digit's grey value says."""
    share, below = digits.astype(np.int32), paper.astype(np.int32)
    mixed = below * (255 - share) + ink.astype(np.int32)[:, :, None, None] * share
    return ((mixed + 127) // 255).astype(np.uint8)


def two_colours(digits: Pixels, rng: np.random.Generator, *, contrast: float) -> Pixels:
    """Digits of one plain colour on another: bright on dark, dark on bright, and all between."""
    n, _, height, width = digits.shape
    paper = rng.integers(0, 256, (n, 3)).astype(np.uint8)
    ink = _contrasting(paper.astype(np.float64), rng, contrast, 0.5)
    return covered(digits, np.broadcast_to(paper[:, :, None, None], (n, 3, height, width)), ink)


def _contrasting(behind: Numbers, rng: np.random.Generator, contrast: float, brighter: float) -> Pixels:
    """For each mean colour behind (n, 3) a random colour that is brighter or darker by ``contrast`` or more."""
    weights = np.array(_GREY) / 1000
    below = (behind * weights).sum(1)
    up = rng.random(len(behind)) < brighter
    # Where the range of grey values ends too soon on one side, the other is taken; up to 127 there is always room.
    up = np.where(up, below + contrast <= 250, below - contrast < 5)
    chosen = np.where(up[:, None], 255, 0) * np.ones((1, 3), np.int64)
    missing = np.ones(len(behind), bool)
    for _ in range(100):
        drawn = rng.integers(0, 256, chosen.shape)
        step = (drawn * weights).sum(1) - below
        fits = missing & (np.where(up, step, -step) >= contrast)
        chosen[fits] = drawn[fits]
        missing &= ~fits
    return chosen.astype(np.uint8)


def outlines(digits: Pixels, rng: np.random.Generator, *, threshold: int, width: int) -> Pixels:
    """The outline of each stroke alone, bright on dark, ``width`` thirds of a pixel wide."""
    size = digits.shape[-1]
    large = resized(digits, size * _ENLARGED)[:, 0] > threshold
    cross = ndimage.generate_binary_structure(2, 1)[None]
    inner = ndimage.binary_erosion(large, cross, iterations=width)
    drawn = (large & ~inner).astype(np.uint8) * 255
    return resized(drawn[:, None], size)


# Photographs


def edge_drawing(images: Pixels, rng: np.random.Generator, *, blur: float, floor: float) -> Pixels:
    """A pencil drawing: dark lines where brightness changes, white paper elsewhere."""
    parts = [_edges(part, blur, floor) for part in _chunks(images)]
    return np.repeat(np.concatenate(parts), 3, axis=1)


def _edges(images: Pixels, blur: float, floor: float) -> Pixels:
    grey = to_channels(images, 1)[:, 0].astype(np.float64)
    smooth = ndimage.gaussian_filter(grey, (0, blur, blur))
    steps = np.sqrt(_sobel(smooth, 1, 2) ** 2 + _sobel(smooth, 2, 1) ** 2)
    # Relative to the picture's own strong edges, so that pale pictures have lines as well.
    strong = np.sort(steps.reshape(len(steps), -1), axis=1)[:, int(0.96 * steps[0].size)]
    share = steps / np.maximum(strong, 1.0)[:, None, None]
    return to_pixels(255 - 235 * np.clip((share - floor) / (1 - floor), 0, 1))[:, None]


def _sobel(values: Numbers, along: int, across: int) -> Numbers:
    """Differences along one axis, smoothed along the other; SciPy's own would smooth along the batch as well."""
    steps: Numbers = ndimage.correlate1d(values, [-1, 0, 1], along)
    return ndimage.correlate1d(steps, [1, 2, 1], across)  # type: ignore[no-any-return]


def painting(images: Pixels, rng: np.random.Generator, *, radius: int, levels: int, vivid: float) -> Pixels:
    """Broad strokes (Kuwahara's filter), few tones, strong colours."""
    parts = []
    for part in _chunks(images):
        flat = _kuwahara(part.astype(np.float64), radius)
        grey = flat.mean(1, keepdims=True)
        strong = np.clip(grey + vivid * (flat - grey), 0, 255)
        parts.append(to_pixels(np.floor(strong / 255 * (levels - 1) + 0.5) * (255 / (levels - 1))))
    return np.concatenate(parts)


def _kuwahara(values: Numbers, radius: int) -> Numbers:
    """Each pixel becomes the mean of the calmest of the four squares that have it as a corner."""
    side = radius + 1
    origins = [(y, x) for y in (-(side // 2), (side - 1) // 2) for x in (-(side // 2), (side - 1) // 2)]
    brightness = values.mean(1)
    best = np.full(brightness.shape, np.inf)
    out = np.zeros_like(values)
    for y, x in origins:
        mean = ndimage.uniform_filter(brightness, (1, side, side), origin=(0, y, x))
        spread = ndimage.uniform_filter(brightness**2, (1, side, side), origin=(0, y, x)) - mean**2
        colour = ndimage.uniform_filter(values, (1, 1, side, side), origin=(0, 0, y, x))
        calmer = spread < best - 1e-6
        best = np.where(calmer, spread, best)
        out = np.where(calmer[:, None], colour, out)
    return out


def blurred(images: Pixels, rng: np.random.Generator, *, sigma: tuple[float, float]) -> Pixels:
    """Out of focus, each picture by its own width in pixels."""
    widths = _uniform(rng, len(images), sigma).reshape(-1)
    return np.stack(
        [
            to_pixels(ndimage.gaussian_filter(one.astype(np.float64), (0, w, w)))
            for one, w in zip(images, widths, strict=True)
        ]
    )


def noisy(images: Pixels, rng: np.random.Generator, *, sigma: tuple[float, float]) -> Pixels:
    """Sensor noise, each picture of its own strength in grey values."""
    strength = _uniform(rng, len(images), sigma)
    parts = []
    for part, size in zip(_chunks(images), _chunks(strength), strict=True):
        parts.append(to_pixels(part + size * rng.standard_normal(part.shape)))
    return np.concatenate(parts)


def low_light(images: Pixels, rng: np.random.Generator, *, gain: tuple[float, float], grain: float) -> Pixels:
    """Underexposed: a fraction of the light, contrast lost in the shadows, and the grain of few photons."""
    gains = _uniform(rng, len(images), gain)
    parts = []
    for part, size in zip(_chunks(images), _chunks(gains), strict=True):
        light = size * (part / 255.0) * (0.4 + 0.6 * part / 255.0)
        light = light + grain * np.sqrt(light + 0.002) * rng.standard_normal(part.shape)
        parts.append(to_pixels(255 * light))
    return np.concatenate(parts)


def jpeg(images: Pixels, rng: np.random.Generator, *, quality: tuple[int, int]) -> Pixels:
    """Through JPEG of low quality, each picture of its own."""
    chosen = rng.integers(quality[0], quality[1] + 1, len(images))
    return np.stack([_through_jpeg(one, int(q)) for one, q in zip(images, chosen, strict=True)])


def _through_jpeg(image: Pixels, quality: int) -> Pixels:
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0))).save(buffer, "JPEG", quality=quality)
    with Image.open(io.BytesIO(buffer.getvalue())) as file:
        pixels: Pixels = np.asarray(file.convert("RGB"), np.uint8).transpose(2, 0, 1)
        return pixels


def colour_cast(images: Pixels, rng: np.random.Generator, *, gain: tuple[float, float], lift: float) -> Pixels:
    """Light of another colour: each channel by its own factor, and coloured haze over the shadows."""
    gains = _uniform(rng, len(images), gain, 3, 1, 1)
    haze = _uniform(rng, len(images), (0, lift), 3, 1, 1)
    parts = []
    for part, size, base in zip(_chunks(images), _chunks(gains), _chunks(haze), strict=True):
        parts.append(to_pixels(base + (255 - base) * np.clip(size * part / 255.0, 0, 1)))
    return np.concatenate(parts)


def close_up(images: Pixels, rng: np.random.Generator, *, share: tuple[float, float], size: int) -> Pixels:
    """A square part of each picture, ``share`` of its side, anywhere, brought to ``size``."""
    side = images.shape[-1]
    sides = np.floor(_uniform(rng, len(images), share).reshape(-1) * side).astype(np.int64)
    places = np.floor(rng.random((len(images), 2)) * (side - sides + 1)[:, None]).astype(np.int64)
    cuts = [
        resized(one[None, :, y : y + s, x : x + s], size)[0]
        for one, s, (y, x) in zip(images, sides, places, strict=True)
    ]
    return np.stack(cuts)


def _chunks(values: NDArray[Any]) -> list[NDArray[Any]]:
    """In pieces, since float64 takes eight times the memory of the pictures."""
    return [values[start : start + _CHUNK] for start in range(0, len(values), _CHUNK)]
