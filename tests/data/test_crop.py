"""Random crops: on an image whose values are its coordinates, a crop must be a straight map within the image."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from residapt.data.crop import RandomCrop
from residapt.errors import ConfigError


def coordinates(n: int, size: int) -> Tensor:
    """Two channels: x and y in [-1, 1], as float64."""
    axis = (torch.arange(size, dtype=torch.float64) + 0.5) / size * 2 - 1
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    return torch.stack([x, y]).expand(n, 2, size, size).clone()


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_whole_area_without_mirroring_is_the_image_itself() -> None:
    images = coordinates(5, 16)
    same = RandomCrop(area=1.0, ratio=1.0, flip=0.0)(images, seeded())
    assert (same - images).abs().max() < 1e-12


def test_a_crop_is_a_rectangle_inside_with_the_promised_area_and_ratio() -> None:
    size, crop = 64, RandomCrop(area=0.4, ratio=1.5, flip=0.0)
    inner = crop(coordinates(200, size), seeded())[:, :, 1:-1, 1:-1]  # the border is clamped
    step_x = inner[:, 0].diff(dim=2).flatten(1)
    step_y = inner[:, 1].diff(dim=1).flatten(1)
    assert (step_x - step_x[:, :1]).abs().max() < 1e-9  # evenly spaced: a straight map
    assert (step_y - step_y[:, :1]).abs().max() < 1e-9
    width, height = step_x[:, 0] * size / 2, step_y[:, 0] * size / 2
    assert inner.abs().max() <= 1
    assert (width * height >= 0.4 - 1e-9).logical_or(width.isclose(torch.ones(()).double())).all()
    assert (width / height).max() <= 1.5 + 1e-9
    assert (width * height).min() < 0.5
    assert (width * height).max() > 0.9
    centres = inner.mean((2, 3))
    assert (centres[:, 0].abs() <= 1 - width + 1e-9).all()
    assert centres.std(0).min() > 0.05


def test_half_of_the_images_are_mirrored() -> None:
    out = RandomCrop(flip=0.5)(coordinates(400, 8), seeded())
    mirrored = (out[:, 0].diff(dim=2).flatten(1)[:, 12] < 0).double().mean()
    assert 0.4 < float(mirrored) < 0.6
    assert (RandomCrop(flip=0.0)(coordinates(50, 8), seeded())[:, 0].diff(dim=2) >= -1e-12).all()


def test_the_generator_decides() -> None:
    images = coordinates(4, 8)
    crop = RandomCrop()
    assert torch.equal(crop(images, seeded(1)), crop(images, seeded(1)))
    assert not torch.equal(crop(images, seeded(1)), crop(images, seeded(2)))


def test_impossible_crops_are_refused() -> None:
    with pytest.raises(ConfigError, match="area=0"):
        RandomCrop(area=0.0)
