"""A drone as a camera sees it: perspective, sun and sky, edges smoothed by drawing larger than needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from residapt_bench.drones.render.solids import Face, Vector

Plane = NDArray[np.floating[Any]]
"""Brightness of every pixel, in [0, 1]."""
Layer = tuple[Plane, Plane]
"""Light and opacity, both in [0, 1]; the light is multiplied by the opacity already."""
OVERSAMPLING = 2


@dataclass(frozen=True)
class View:
    """Where the camera stands, how the drone is turned, where its picture lies, and the light."""

    azimuth: float
    """From where around the drone, in radians."""
    elevation: float
    """Height of the camera over the drone's plane; negative looks up at it."""
    roll: float
    """Turn of the picture."""
    distance: float
    """In arm lengths; near cameras give strong perspective."""
    extent: float
    """Larger side of the drone's picture as a share of the image's side."""
    stretch: float
    """Height over width: wide photographs were squeezed into squares, the real ones too."""
    centre: tuple[float, float]
    """Middle of the drone's picture, as shares of the image's sides."""
    sun: tuple[float, float, float]
    """Direction to the sun, of length 1."""
    direct: float
    """Strength of the sun."""
    sky: float
    """Light from the sky, on faces that look up."""
    ground: float
    """Light from the ground, on faces that look down."""
    blur: tuple[float, float]
    """Motion during the exposure, as shares of the image's sides."""


class Canvas:
    """A black square on which polygons are painted over each other."""

    def __init__(self, side: int) -> None:
        self.image = Image.new("L", (side, side))
        self._pen = ImageDraw.Draw(self.image)

    def polygon(self, points: list[tuple[float, float]], value: float, alpha: float) -> None:
        """A polygon of brightness ``value``; below an opacity of 1 what is behind it shines through."""
        if alpha >= 1:
            self._pen.polygon(points, fill=round(255 * value))
            return
        mask = Image.new("L", self.image.size)
        ImageDraw.Draw(mask).polygon(points, fill=round(255 * alpha))
        self.image.paste(round(255 * value), mask=mask)


def sample_view(rng: np.random.Generator, extent: float) -> View:
    """A view at random, the drone's picture being ``extent`` of the image."""
    kind = rng.choice(3, p=[0.4, 0.45, 0.15])
    elevation = (rng.normal(-0.15, 0.3), rng.uniform(0.15, 0.9), rng.uniform(1.0, 1.5))[kind]
    space = max(0.0, 1.0 - extent)
    # Photographers keep the drone near the middle, the more so the larger it is.
    centre = 0.5 + 0.5 * space * rng.uniform(-1, 1, 2) * rng.uniform(0.2, 1.0)
    sun = rng.normal(size=3)
    sun[2] = abs(sun[2]) + 0.3
    sun /= np.linalg.norm(sun)
    backlit = rng.random() < 0.25
    length = rng.exponential(0.012) if rng.random() < 0.6 else 0.0
    angle = rng.uniform(0, 2 * np.pi)
    return View(
        azimuth=float(rng.uniform(0, 2 * np.pi)),
        elevation=float(elevation),
        roll=float(rng.normal(0, 0.15)),
        distance=float(rng.uniform(3.0, 9.0)),
        extent=extent,
        stretch=float(rng.uniform(1.0, 1.55)),
        centre=(float(centre[0]), float(centre[1])),
        sun=(float(sun[0]), float(sun[1]), float(sun[2])),
        direct=0.0 if backlit else float(rng.uniform(0.25, 0.8)),
        sky=float(rng.uniform(0.15, 0.4) if backlit else rng.uniform(0.45, 0.9)),
        ground=float(rng.uniform(0.1, 0.3) if backlit else rng.uniform(0.2, 0.7)),
        blur=(float(length * np.cos(angle)), float(length * np.sin(angle))),
    )


def render(faces: Sequence[Face], view: View, size: int) -> Layer:
    """Draw the faces from the farthest to the nearest into a square of ``size`` pixels."""
    side = size * OVERSAMPLING
    axes, eye = _camera(view)
    corners = _stacked(faces)
    seen = corners @ axes.T + np.array([0.0, 0.0, view.distance])
    placed = _placed(seen[..., :2] / np.maximum(seen[..., 2:], 0.3), view, side)
    values = shades(faces, corners, view, eye)
    light, cover = Canvas(side), Canvas(side)
    for i in np.argsort(-seen[..., 2].mean(axis=1)):
        points = [(x, y) for x, y in placed[i, : len(faces[i].points)].tolist()]
        light.polygon(points, float(values[i]), faces[i].alpha)
        cover.polygon(points, 1.0, faces[i].alpha)
    images = [_moved(canvas.image, view.blur) for canvas in (light, cover)]
    box = [image.resize((size, size), Image.Resampling.BOX) for image in images]
    return np.asarray(box[0], np.float32) / 255, np.asarray(box[1], np.float32) / 255


def shades(faces: Sequence[Face], corners: Vector, view: View, eye: Vector) -> Vector:
    """Brightness of every face: Lambert's law for the sun, soft light from sky and ground, a glint."""
    albedo, gloss = np.array([face.albedo for face in faces]), np.array([face.gloss for face in faces])
    # Newell's normal: right for any flat polygon, and blind to a corner that is repeated.
    normal = _unit(np.cross(corners, np.roll(corners, -1, axis=1)).sum(axis=1))
    to_eye = _unit(eye - corners.mean(axis=1))
    normal *= np.where((normal * to_eye).sum(axis=1) < 0, -1.0, 1.0)[:, None]
    sun = np.array(view.sun)
    around = view.ground + (view.sky - view.ground) * (0.5 + 0.5 * normal[:, 2])
    glint = np.maximum(0.0, (normal * _unit(sun + to_eye)).sum(axis=1)) ** 20
    found: Vector = albedo * (around + view.direct * np.maximum(0.0, normal @ sun)) + gloss * view.direct * glint
    return found.clip(0.0, 1.0)


def _stacked(faces: Sequence[Face]) -> Vector:
    """All corners in one array, the last corner of a face repeated up to the longest."""
    longest = max(len(face.points) for face in faces)
    return np.stack([face.points[np.minimum(np.arange(longest), len(face.points) - 1)] for face in faces])


def _unit(vectors: Vector) -> Vector:
    unit: Vector = vectors / (np.linalg.norm(vectors, axis=-1, keepdims=True) + 1e-12)
    return unit


def _camera(view: View) -> tuple[Vector, Vector]:
    """The camera's axes (right, down, forward) as rows, and where it stands."""
    cos, sin = np.cos(view.elevation), np.sin(view.elevation)
    back = np.array([cos * np.cos(view.azimuth), cos * np.sin(view.azimuth), sin])
    right = np.array([-np.sin(view.azimuth), np.cos(view.azimuth), 0.0])
    up = np.cross(back, right)
    c, s = np.cos(view.roll), np.sin(view.roll)
    return np.stack([c * right + s * up, s * right - c * up, -back]), view.distance * back


def _placed(flat: Vector, view: View, side: int) -> Vector:
    """Bring the whole drone to its extent and place, in pixels."""
    flat = flat * np.array([1.0, view.stretch])
    low, high = flat.min(axis=(0, 1)), flat.max(axis=(0, 1))
    scale = view.extent * side / float((high - low).max())
    placed: Vector = scale * (flat - (low + high) / 2) + side * np.array(view.centre)
    return placed


def _moved(image: Image.Image, blur: tuple[float, float]) -> Image.Image:
    """The mean over places along the motion."""
    steps = int(np.ceil(max(abs(blur[0]), abs(blur[1])) * image.width)) + 1
    if steps == 1:
        return image
    total = np.zeros((image.height, image.width), np.float32)
    for share in np.linspace(-0.5, 0.5, steps):
        matrix = (1, 0, share * blur[0] * image.width, 0, 1, share * blur[1] * image.height)
        total += np.asarray(image.transform(image.size, Image.Transform.AFFINE, matrix), np.float32)
    return Image.fromarray((total / steps).round().astype(np.uint8))
