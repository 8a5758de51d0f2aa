"""Flat faces of simple solids, from which a drone is put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Face:
    """A polygon in space."""

    points: Vector
    """Corners in order, shape (k, 3)."""
    albedo: float
    """Share of the light that it throws back."""
    alpha: float = 1.0
    """Opacity; the disc of a turning rotor lets most light through."""
    gloss: float = 0.0
    """Strength of the sun's reflection."""


def loft(rings: Sequence[Vector], albedo: float, gloss: float = 0.0) -> list[Face]:
    """The skin over rings of equally many corners, closed at both ends."""
    faces = [Face(rings[0], albedo, gloss=gloss), Face(rings[-1], albedo, gloss=gloss)]
    for below, above in pairwise(rings):
        for i in range(len(below)):
            j = (i + 1) % len(below)
            faces.append(Face(np.stack([below[i], below[j], above[j], above[i]]), albedo, gloss=gloss))
    return faces


def ring(centre: Vector, radii: tuple[float, float], corners: int, power: float = 2.0) -> Vector:
    r"""A horizontal ring, :math:`|x/a|^p + |y/b|^p = 1`: an ellipse for p = 2, nearly a rectangle for p = 8."""
    angle = 2 * np.pi * (np.arange(corners) + 0.5) / corners
    cos, sin = np.cos(angle), np.sin(angle)
    scale = (np.abs(cos) ** power + np.abs(sin) ** power) ** (-1 / power)
    flat = np.stack([radii[0] * scale * cos, radii[1] * scale * sin, np.zeros(corners)], axis=1)
    moved: Vector = flat + centre
    return moved


def tube(start: Vector, end: Vector, radii: tuple[float, float], albedo: float, corners: int = 6) -> list[Face]:
    """A straight rod whose radius goes from the first to the second."""
    axis = (end - start) / (np.linalg.norm(end - start) + 1e-12)
    across = np.cross(axis, [0.0, 0.0, 1.0] if abs(axis[2]) < 0.9 else [1.0, 0.0, 0.0])
    across /= np.linalg.norm(across)
    up = np.cross(axis, across)
    angle = 2 * np.pi * np.arange(corners) / corners
    circle = np.cos(angle)[:, None] * across + np.sin(angle)[:, None] * up
    return loft([start + radii[0] * circle, end + radii[1] * circle], albedo, gloss=0.1)


def hoop(centre: Vector, radius: float, thickness: float, albedo: float, corners: int = 16) -> list[Face]:
    """A band around a rotor, as guards are."""
    low, high = (ring(centre + np.array([0.0, 0.0, z]), (radius, radius), corners) for z in (-thickness, thickness))
    wide = ring(centre, (radius + thickness, radius + thickness), corners)
    return [
        Face(np.stack([one[i], one[(i + 1) % corners], streams[(i + 1) % corners], streams[i]]), albedo)
        for one, streams in ((low, high), (low, wide), (wide, high))
        for i in range(corners)
    ]


def disc(centre: Vector, radius: float, albedo: float, alpha: float) -> Face:
    """A turning rotor: its blades, blurred over the whole circle."""
    return Face(ring(centre, (radius, radius), 20), albedo, alpha)


def blade(centre: Vector, angle: float, radius: float, width: float, albedo: float) -> Face:
    """A rotor at rest: two blades that widen from the hub and taper to the tips."""
    along = np.array([np.cos(angle), np.sin(angle), 0.0])
    side = np.array([-np.sin(angle), np.cos(angle), 0.25])
    shape = ((-1.0, 0.25), (-0.6, 1.0), (-0.1, 0.5), (0.1, 0.5), (0.6, 0.7), (1.0, 0.25))
    outline = [(x, w) for x, w in shape] + [(x, -0.6 * w) for x, w in reversed(shape)]
    points = np.stack([centre + radius * x * along + width * w * side for x, w in outline])
    return Face(points, albedo, gloss=0.2)
