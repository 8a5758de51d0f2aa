"""Batch transforms against plain loops over pixels."""

from __future__ import annotations

import math

import pytest
import torch

from residapt.data import preprocess
from residapt.data.preprocess import Normalise, augment, resize, to_float, to_grey, to_rgb
from residapt.errors import ConfigError, DataError


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(256, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


def test_grey_is_the_weighted_sum() -> None:
    images = noise(3, 3, 4, 5)
    grey = to_grey(images)
    assert grey.dtype == torch.uint8
    for n in range(3):
        for y in range(4):
            for x in range(5):
                r, g, b = (int(v) for v in images[n, :, y, x])
                assert abs(int(grey[n, 0, y, x]) - (0.2989 * r + 0.5870 * g + 0.1140 * b)) <= 0.51
    torch.testing.assert_close(to_grey(images / 255), (to_grey(images.float()) / 255))


def test_grey_and_rgb_leave_images_that_are_so_already() -> None:
    colour, grey = noise(2, 3, 2, 2), noise(2, 1, 2, 2)
    assert to_rgb(colour) is colour
    assert to_grey(grey) is grey
    assert torch.equal(to_rgb(grey), torch.cat([grey, grey, grey], dim=1))


def bilinear(image: list[list[float]], size: int) -> list[list[float]]:
    """Textbook bilinear resizing with aligned pixel centres."""
    side = len(image)

    def clamp(i: int) -> int:
        return min(max(i, 0), side - 1)

    out = []
    for row in range(size):
        y = (row + 0.5) * side / size - 0.5
        line = []
        for column in range(size):
            x = (column + 0.5) * side / size - 0.5
            y0, x0 = math.floor(y), math.floor(x)
            fy, fx = y - y0, x - x0
            line.append(
                (1 - fy) * (1 - fx) * image[clamp(y0)][clamp(x0)]
                + (1 - fy) * fx * image[clamp(y0)][clamp(x0 + 1)]
                + fy * (1 - fx) * image[clamp(y0 + 1)][clamp(x0)]
                + fy * fx * image[clamp(y0 + 1)][clamp(x0 + 1)]
            )
        out.append(line)
    return out


@pytest.mark.parametrize("size", [4, 7, 9])
def test_resize_is_bilinear(size: int) -> None:
    images = torch.rand(2, 1, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = torch.tensor([[bilinear(image[0].tolist(), size)] for image in images], dtype=torch.float64)
    torch.testing.assert_close(resize(images, size), expected)
    as_bytes = (images * 255).to(torch.uint8)
    assert (resize(as_bytes, size).double() - resize(as_bytes.double(), size)).abs().max() <= 0.501


def test_work_in_chunks_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    images = noise(7, 3, 8, 8)
    whole = resize(images, 5), to_grey(images)
    monkeypatch.setattr(preprocess, "_CHUNK", 3)
    assert torch.equal(resize(images, 5), whole[0])
    assert torch.equal(to_grey(images), whole[1])


def test_to_float_normalises_each_channel() -> None:
    images = noise(2, 3, 2, 2)
    out = to_float(images, (0.1, 0.2, 0.3), (1.0, 2.0, 4.0))
    for c, (mean, std) in enumerate([(0.1, 1.0), (0.2, 2.0), (0.3, 4.0)]):
        torch.testing.assert_close(out[:, c], (images[:, c].float() / 255 - mean) / std)
    torch.testing.assert_close(to_float(images / 255, 0.5, 0.5), to_float(images, 0.5, 0.5))


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(DataError, match=r"\(2, 2, 4, 4\)"):
        to_grey(noise(2, 2, 4, 4))
    with pytest.raises(DataError, match=r"mean.*\b2\b.*\b3\b"):
        to_float(noise(1, 3, 2, 2), (0.5, 0.5))
    with pytest.raises(ConfigError, match=r"\b0\b"):
        resize(noise(1, 1, 2, 2), 0)


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_pixels_are_normalised_by_channel() -> None:
    pixels = torch.tensor([0, 255, 51], dtype=torch.uint8).view(1, 3, 1, 1).expand(2, 3, 4, 4)
    out = Normalise((0.5, 0.5, 0.2), (0.5, 0.25, 0.1))(pixels, seeded())
    assert out[0, :, 0, 0].tolist() == pytest.approx([-1.0, 2.0, 0.0], abs=1e-6)


@pytest.mark.parametrize(
    ("channels", "size", "mirrors"), [(1, 28, False), (3, 32, False), (1, 128, False), (3, 128, True)]
)
def test_only_photographs_are_mirrored(channels: int, size: int, mirrors: bool) -> None:
    """Values that grow to the right fall somewhere only in a mirror image; digits are shifted by two pixels at most."""
    ramp = torch.linspace(0, 1, size).expand(64, channels, size, size).clone()
    out = augment(ramp, seeded())
    falls = (out[:, 0, 0, -1] < out[:, 0, 0, 0]).any()
    assert bool(falls) is mirrors
    if not mirrors:
        moved = (out - ramp).abs().max() * (size - 1)
        assert 0.9 < float(moved) < size / 14 + 0.6
