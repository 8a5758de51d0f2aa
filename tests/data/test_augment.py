"""Augment: each setting against what it should do to pixels, and reproducibility."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from residapt.data.augment import Augment, RandomCrop, affine_matrices, warp
from residapt.data.config import AugmentConfig
from residapt.errors import ConfigError, DataError


def gen(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def images() -> torch.Tensor:
    return torch.rand(16, 2, 6, 9, generator=gen(5))


def test_nothing_set_changes_nothing(images: torch.Tensor) -> None:
    assert Augment()(images) is images


def test_flip_mirrors_left_and_right(images: torch.Tensor) -> None:
    torch.testing.assert_close(Augment(flip=1.0)(images, gen()), images.flip(-1))
    out = Augment(flip=0.5)(images, gen())
    kept = [torch.allclose(a, b, atol=1e-5) for a, b in zip(out, images, strict=True)]
    mirrored = [torch.allclose(a, b.flip(-1), atol=1e-5) for a, b in zip(out, images, strict=True)]
    assert all(k != m for k, m in zip(kept, mirrored, strict=True))
    assert 0 < sum(kept) < len(kept)


def test_shift_is_a_crop_of_the_padded_image(images: torch.Tensor) -> None:
    out = Augment(shift=2, padding="zeros")(images, gen())
    padded = torch.nn.functional.pad(images, (2, 2, 2, 2))
    found = set()
    for image, whole in zip(out, padded, strict=True):
        crops = {(y, x): whole[:, y : y + 6, x : x + 9] for y in range(5) for x in range(5)}
        hits = [at for at, crop in crops.items() if torch.allclose(image, crop, atol=1e-5)]
        assert len(hits) == 1
        found.add(hits[0])
    assert len(found) > 4


def test_a_quarter_turn_is_exact_on_square_images() -> None:
    square = torch.rand(1, 1, 7, 7, generator=gen())
    one, zero = torch.ones(1), torch.zeros(1)
    theta = affine_matrices(torch.tensor([math.pi / 2]), one, one, zero)
    torch.testing.assert_close(warp(square, theta), torch.rot90(square, -1, (2, 3)), atol=1e-5, rtol=0)


def test_scale_above_one_enlarges() -> None:
    dot = torch.zeros(1, 1, 9, 9)
    dot[..., 3:6, 3:6] = 1
    streams, one, zero = torch.full((1,), 2.0), torch.ones(1), torch.zeros(1)
    wide = warp(dot, affine_matrices(zero, streams, one, zero))
    assert wide.sum() == pytest.approx(18, rel=0.05)
    assert (wide.sum(dim=(0, 1, 3)) > 0).sum() == 3  # still three rows high


def test_rotation_keeps_circles_in_oblong_images() -> None:
    y, x = torch.meshgrid(torch.arange(20) - 9.5, torch.arange(40) - 19.5, indexing="ij")
    disc = ((x**2 + y**2) < 36).float()[None, None]
    turned = Augment(rotate=90)(disc.expand(8, 1, 20, 40), gen())
    assert (turned - disc).abs().mean() < 0.02


def test_contrast_keeps_the_mean_and_scales_the_rest(images: torch.Tensor) -> None:
    out = Augment(contrast=0.5)(images, gen())
    mean = images.mean(dim=(1, 2, 3))
    torch.testing.assert_close(out.mean(dim=(1, 2, 3)), mean)
    ratio = out.std(dim=(1, 2, 3)) / images.std(dim=(1, 2, 3))
    assert ratio.min() >= 0.5
    assert ratio.max() <= 1.5
    assert ratio.std() > 0.1


def test_inversion_mirrors_the_value_range(images: torch.Tensor) -> None:
    torch.testing.assert_close(Augment(invert=1.0)(images, gen()), 1 - images)
    signed = 2 * images - 1
    torch.testing.assert_close(Augment(invert=1.0, value_range=(-1, 1))(signed, gen()), -signed)


def test_one_generator_decides_everything(images: torch.Tensor) -> None:
    change = Augment(flip=0.5, shift=2, rotate=10, scale=0.1, shear=0.1, contrast=0.2, invert=0.3)
    before = torch.random.get_rng_state()
    first = change(images, gen(7))
    assert torch.equal(first, change(images, gen(7)))
    assert not torch.equal(first, change(images, gen(8)))
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("setting", "value"),
    [("flip", 1.5), ("invert", -0.1), ("shift", -1), ("scale", 1.0), ("rotate", 200), ("padding", "black")],
)
def test_impossible_settings_are_refused_with_their_value(setting: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"augment\.{setting}.*{value}"):
        Augment(**{setting: value})  # type: ignore[arg-type]


def test_bytes_are_refused() -> None:
    with pytest.raises(DataError, match="uint8"):
        Augment(flip=1.0)(torch.zeros(1, 1, 2, 2, dtype=torch.uint8))


def test_inverting_within_each_images_own_range_keeps_that_range():
    images = (
        torch.randn(3, 1, 4, 4, generator=torch.Generator().manual_seed(0))
        * torch.tensor([1.0, 5.0, 0.1])[:, None, None, None]
    )
    turned = Augment(invert=1.0, value_range=None)(images)
    for before, after in zip(images, turned, strict=True):
        assert after.min().item() == pytest.approx(before.min().item(), abs=1e-6)
        assert after.max().item() == pytest.approx(before.max().item(), abs=1e-6)
        assert torch.equal(after.flatten().argsort(), before.flatten().argsort(descending=True))


def test_settings_that_are_all_off_build_nothing():
    assert AugmentConfig().build() is None
    assert AugmentConfig(contrast=0.2, shift=1).build() == Augment(contrast=0.2, shift=1, value_range=None)


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


def test_crops_are_those_of_affine_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    grids = []
    real = functional.grid_sample

    def sample(images: Tensor, grid: Tensor, **options: Any) -> Tensor:
        grids.append(grid)
        return real(images, grid, **options)

    monkeypatch.setattr(functional, "grid_sample", sample)
    RandomCrop()(torch.zeros(20, 1, 6, 9, dtype=torch.float64), gen())
    first, last = grids[0][:, 0, 0], grids[0][:, -1, -1]
    theta = torch.zeros(20, 2, 3, dtype=torch.float64)
    theta[:, 0, 0], theta[:, 1, 1] = ((last - first) / (2 - 2 / torch.tensor([9.0, 6.0]).double())).unbind(1)
    theta[:, :, 2] = (first + last) / 2
    torch.testing.assert_close(grids[0], functional.affine_grid(theta, [20, 1, 6, 9], align_corners=False))
