"""The embedded domains: deterministic, balanced, readable, and different from each other."""

from __future__ import annotations

import time

import pytest
import torch

from residapt.data.glyphs import GLYPH_SIZE, glyph_bank
from residapt.data.synthetic import PrintStyle, _blur, handwritten_digits, printed_digits
from residapt.errors import ConfigError


def test_every_glyph_is_drawn_whole_and_differs_from_the_others() -> None:
    bank = glyph_bank()
    assert bank.shape[1:] == (10, GLYPH_SIZE, GLYPH_SIZE)
    assert bank.amax(dim=(2, 3)).min() > 0.95
    edge = torch.cat([bank[..., 0, :], bank[..., -1, :], bank[..., :, 0], bank[..., :, -1]], dim=-1)
    assert edge.max() == 0
    rows = (bank.amax(dim=3) > 0.5).sum(dim=2)
    assert rows.min() > 0.6 * GLYPH_SIZE  # all equally high, so that size does not tell the font
    for font in bank:
        assert torch.cdist(font.flatten(1), font.flatten(1)).add(torch.eye(10) * 99).min() > 3


def test_the_same_seed_gives_the_same_digits() -> None:
    first, again, other = printed_digits(60, seed=3), printed_digits(60, seed=3), printed_digits(60, seed=4)
    assert torch.equal(first.images, again.images)
    assert torch.equal(first.labels, again.labels)
    assert not torch.equal(first.images, other.images)


def test_printed_digits_leave_the_global_generator_alone() -> None:
    before = torch.random.get_rng_state()
    printed_digits(10)
    assert torch.equal(before, torch.random.get_rng_state())


def test_printed_digits_are_balanced_and_varied() -> None:
    digits = printed_digits(500, seed=0, size=20)
    assert digits.images.shape == (500, 1, 20, 20)
    assert digits.labels.bincount(minlength=10).tolist() == [50] * 10
    assert digits.images.float().std(dim=0).min() > 10
    border = digits.images[:, 0, 0].float().mean(dim=1)
    assert 0.1 < (border > 128).float().mean() < 0.3  # the share that is dark on bright


def test_without_variation_only_the_font_differs() -> None:
    still = PrintStyle(
        rotate=0, slant=0, width=(1, 1), height=(1, 1), shift=0, perspective=0, wave=0, blur=(0, 0),
        ink=(1, 1), paper=(0, 0), shade=0, noise=0, invert=0,
    )  # fmt: skip
    digits = printed_digits(300, size=GLYPH_SIZE, style=still)
    bank = (glyph_bank() * 255).round().to(torch.uint8)
    for image, label in zip(digits.images[:, 0], digits.labels, strict=True):
        assert (bank[:, label].int() - image.int()).abs().amax(dim=(1, 2)).min() <= 1


def test_blur_keeps_the_sum_and_has_the_width_asked_for() -> None:
    dots = torch.zeros(3, 1, 15, 15)
    dots[:, 0, 7, 7] = 1
    sigma = torch.tensor([0.0, 0.7, 1.0]).view(3, 1, 1)
    out = _blur(dots, sigma)[:, 0]
    torch.testing.assert_close(out.sum(dim=(1, 2)), torch.ones(3))
    variance = (out.sum(dim=1) * (torch.arange(15) - 7.0) ** 2).sum(dim=1)
    torch.testing.assert_close(out[0], dots[0, 0])
    assert variance[1:].tolist() == pytest.approx([0.49, 1.0], rel=0.03)


def test_eight_thousand_digits_take_seconds() -> None:
    glyph_bank()
    start = time.process_time()
    printed_digits(8000)
    assert time.process_time() - start < 10


def test_handwritten_digits_are_the_ones_of_scikit_learn() -> None:
    digits = handwritten_digits()
    assert digits.images.shape == (1797, 1, 28, 28)
    assert digits.labels[:10].tolist() == list(range(10))
    small = handwritten_digits(size=8)
    assert small.images.max() == 255
    assert small.images[0, 0, 0].tolist() == [0, 0, 80, 207, 143, 16, 0, 0]  # 0 0 5 13 9 1 0 0, times 255/16


def test_impossible_requests_are_refused() -> None:
    with pytest.raises(ConfigError, match="count=0"):
        printed_digits(0)
