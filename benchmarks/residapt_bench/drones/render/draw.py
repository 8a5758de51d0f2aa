"""Synthetic photographs of drones: a drone seen against a background, through a lens, a sensor and a JPEG file."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageFilter

from residapt_bench.drones.render.craft import craft_faces, sample_craft
from residapt_bench.drones.render.view import Plane, render, sample_view

SIDE = 128
"""Side of a drawn photograph: that of the real ones, so that both come to the patch's size in the same way."""


@dataclass(frozen=True)
class Looks:
    """How the drawn photographs are distributed; docs/research/drones.md says how that was chosen."""

    studio: float = 0.4
    """Share of photographs before an almost plain background, as in catalogues."""
    large: float = 0.78
    """Share of drones that fill most of the photograph."""
    small: float = 0.06
    """Share of drones far away."""
    least_contrast: float = 30.0
    """Grey levels between the drone and what is behind it, below which another drone is drawn."""


def draw_photograph(background: Image.Image, rng: np.random.Generator, looks: Looks) -> Image.Image:
    """A drone in front of a background (grey, square), as a decoded JPEG of 128x128 pixels."""
    behind: Plane = np.asarray(background.resize((SIDE, SIDE), Image.Resampling.BICUBIC), np.float32) / 255
    behind = studio(behind, rng) if rng.random() < looks.studio else behind
    scene = behind
    for _ in range(6):
        light, cover = render(craft_faces(sample_craft(rng), rng), sample_view(rng, _extent(rng, looks)), SIDE)
        scene = behind * (1 - cover) + light
        if 255 * contrast(scene, behind, cover) >= looks.least_contrast:
            break
    return expose(scene, rng)


def studio(background: Plane, rng: np.random.Generator) -> Plane:
    """The background with almost all structure gone: mostly white, at times grey or black."""
    level = float(rng.choice([1.02, 0.96, rng.uniform(0.3, 0.9), 0.05], p=[0.65, 0.17, 0.15, 0.03]))
    rest = rng.uniform(0.0, 0.08)
    return level + rest * (background - level)


def contrast(scene: Plane, behind: Plane, cover: Plane) -> float:
    """Mean difference that the drone makes where it is."""
    return float((np.abs(scene - behind) * cover).sum() / max(float(cover.sum()), 1e-6))


def expose(scene: Plane, rng: np.random.Generator) -> Image.Image:
    """Lens, exposure, sensor noise and compression; negatives of the source go through it as well."""
    image = Image.fromarray((255 * scene.clip(0, 1)).round().astype(np.uint8))
    image = image.filter(ImageFilter.GaussianBlur(float(rng.uniform(0.1, 0.8))))
    values = np.asarray(image, np.float32) * rng.uniform(0.9, 1.08) + rng.uniform(-8, 8)
    values += rng.normal(0, rng.uniform(0.5, 5.0), values.shape)
    file = io.BytesIO()
    Image.fromarray(values.clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=int(rng.integers(60, 96)))
    return Image.open(file)


def _extent(rng: np.random.Generator, looks: Looks) -> float:
    """Larger side of the drone's picture as a share of the photograph's."""
    kind = rng.random()
    if kind < looks.large:
        return float(rng.uniform(0.72, 1.08))
    if kind < 1 - looks.small:
        return float(rng.uniform(0.3, 0.72))
    return float(rng.uniform(0.1, 0.3))
