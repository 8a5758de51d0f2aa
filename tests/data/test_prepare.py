"""Pixels become what the network reads; what is changed at random follows from the images, not from a setting."""

from __future__ import annotations

import pytest
import torch

from residapt.data.prepare import Normalise, augment


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
