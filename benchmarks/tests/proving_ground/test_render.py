"""What each rendering must do to a picture, on pictures made up here."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from residapt_bench.proving_ground import render
from residapt_bench.proving_ground.pair import random_numbers


def photographs(count: int = 6, size: int = 48) -> render.Pixels:
    """Smooth random pictures with a bright square."""
    rng = random_numbers("pictures")
    rough = rng.random((count, 3, size, size))
    smooth = ndimage.gaussian_filter(rough, (0, 0, 3, 3)) * 900 - 350
    smooth[:, :, 12:30, 12:30] += 90
    return render.to_pixels(smooth)


def digits(count: int = 40) -> render.Pixels:
    """A ring of varying radius with soft edges, in place of a digit."""
    axis = np.arange(28) - 13.5
    radius = np.sqrt(axis[:, None] ** 2 + axis[None] ** 2)[None]
    sizes = np.linspace(6, 10, count)[:, None, None]
    return render.to_pixels(255 * np.clip(2.5 - np.abs(radius - sizes), 0, 1))[:, None]


RENDERERS = {
    "edges": lambda x, r: render.edge_drawing(x, r, blur=0.7, floor=0.2),
    "painting": lambda x, r: render.painting(x, r, radius=4, levels=6, vivid=1.6),
    "blur": lambda x, r: render.blurred(x, r, sigma=(1.5, 3.0)),
    "noise": lambda x, r: render.noisy(x, r, sigma=(40, 90)),
    "dark": lambda x, r: render.low_light(x, r, gain=(0.05, 0.2), grain=0.08),
    "jpeg": lambda x, r: render.jpeg(x, r, quality=(2, 6)),
    "cast": lambda x, r: render.colour_cast(x, r, gain=(0.2, 1.2), lift=90.0),
    "close": lambda x, r: render.close_up(x, r, share=(0.4, 0.6), size=48),
}


@pytest.mark.parametrize("name", RENDERERS)
def test_same_seed_same_pixels_and_every_picture_changes(name: str) -> None:
    images = photographs()
    first, again = (RENDERERS[name](images, random_numbers(name)) for _ in range(2))
    assert first.dtype == np.uint8
    assert first.shape == images.shape
    np.testing.assert_array_equal(first, again)
    assert (first != images).reshape(len(images), -1).any(1).all()


@pytest.mark.parametrize("name", ["edges", "painting"])
def test_a_picture_is_drawn_alike_alone_and_among_many(name: str) -> None:
    images = photographs(70)  # more than are worked on at a time
    among = RENDERERS[name](images, random_numbers(name))
    np.testing.assert_array_equal(among[65:66], RENDERERS[name](images[65:66], random_numbers(name)))


def test_edges_are_dark_where_brightness_changes_and_white_elsewhere() -> None:
    image = np.full((1, 3, 48, 48), 60, np.uint8)
    image[:, :, :, 24:] = 200
    drawn = RENDERERS["edges"](image, random_numbers("edges"))[0]
    assert (drawn[:, :, 23:25] < 60).all()
    assert (drawn[:, :, :18] == 255).all()
    assert (drawn[:, :, 30:] == 255).all()
    np.testing.assert_array_equal(drawn[0], drawn[2])  # grey


def test_painting_has_few_tones_and_keeps_a_sharp_border() -> None:
    image = np.full((1, 3, 48, 48), 60, np.uint8)
    image[:, :, :, 24:] = 200
    painted = RENDERERS["painting"](image, random_numbers("painting"))
    assert set(np.unique(painted)) <= set(render.to_pixels(np.arange(6) * 51.0))
    assert len(np.unique(painted[..., :24])) == len(np.unique(painted[..., 24:])) == 1
    many = RENDERERS["painting"](photographs(), random_numbers("painting"))
    assert len(np.unique(many)) <= 6


def test_blur_takes_steps_away_and_keeps_the_mean() -> None:
    images = photographs()
    soft = RENDERERS["blur"](images, random_numbers("blur"))
    step = lambda x: np.abs(np.diff(x.astype(float), axis=-1)).max(axis=(1, 2, 3))  # noqa: E731
    assert (step(soft) < 0.5 * step(images)).all()
    np.testing.assert_allclose(soft.mean((1, 2, 3)), images.mean((1, 2, 3)), atol=2.0)


def test_noise_has_the_stated_strength() -> None:
    grey = np.full((30, 3, 48, 48), 128, np.uint8)
    spread = render.noisy(grey, random_numbers("noise"), sigma=(20, 20)).std((1, 2, 3))
    np.testing.assert_allclose(spread, 20, rtol=0.05)


def test_low_light_keeps_the_order_of_brightness_and_little_of_its_range() -> None:
    images = photographs()
    dark = RENDERERS["dark"](images, random_numbers("dark"))
    assert dark.mean() < 0.2 * images.mean()
    for before, after in zip(images, dark, strict=True):
        assert np.corrcoef(before.ravel(), after.ravel())[0, 1] > 0.2


def test_jpeg_loses_more_at_lower_quality() -> None:
    images = photographs().astype(int)
    lost = [
        np.abs(render.jpeg(images.astype(np.uint8), random_numbers("j"), quality=(q, q)) - images).mean()
        for q in (95, 30, 3)
    ]
    assert 0 < lost[0] < lost[1] < lost[2]


def test_a_colour_cast_keeps_the_order_within_a_channel() -> None:
    images = photographs()
    tinted = RENDERERS["cast"](images, random_numbers("cast"))
    for before, after in zip(images.reshape(-1, 48 * 48), tinted.reshape(-1, 48 * 48), strict=True):
        order = np.argsort(before, kind="stable")
        assert (np.diff(after[order].astype(int)) >= 0).all()
    assert np.ptp(tinted.mean((2, 3)), axis=1).min() > 3  # the channels differ by the light's colour


def test_a_close_up_is_a_part_of_the_picture() -> None:
    ramp = np.broadcast_to(np.arange(0, 250, 5, dtype=np.uint8), (20, 3, 50, 50)).copy()
    cut = render.close_up(ramp, random_numbers("close"), share=(0.5, 0.5), size=50)
    width = cut[:, 0, 0, -1].astype(int) - cut[:, 0, 0, 0]
    assert (abs(width - 24 * 5) <= 5).all()
    assert len(set(cut[:, 0, 0, 0].tolist())) > 3  # at different places


def test_clutter_keeps_the_digit_and_what_is_behind_it() -> None:
    shapes, behind = digits(), photographs(40, 28)
    ink = np.tile(np.array([[250, 10, 120]], np.uint8), (40, 1))
    out = render.covered(shapes, behind, ink)
    inside, outside = (np.repeat(shapes == value, 3, axis=1) for value in (255, 0))
    np.testing.assert_array_equal(out[outside], behind[outside])
    np.testing.assert_array_equal(out[inside], np.broadcast_to(ink[:, :, None, None], out.shape)[inside])
    half = np.repeat((shapes > 100) & (shapes < 155), 3, axis=1)
    low, high = np.minimum(out[half], behind[half]), np.maximum(out[half], behind[half])
    assert half.any()
    assert (low <= high).all()


@pytest.mark.parametrize(("brighter", "wanted"), [(1.0, 1.0), (0.0, 0.0), (0.5, 0.5)])
def test_ink_stands_out_from_the_photograph_on_the_wanted_side(brighter: float, wanted: float) -> None:
    shapes = np.full((2000, 1, 4, 4), 255, np.uint8)
    behind = np.full((2000, 3, 4, 4), 120, np.uint8)
    out = render.over_photographs(shapes, behind, random_numbers("ink"), contrast=60, brighter=brighter)
    step = render.to_channels(out, 1)[:, 0, 0, 0].astype(int) - 120
    assert (abs(step) >= 59).all()
    assert abs((step > 0).mean() - wanted) < 0.05
    assert len(np.unique(out[:, :, 0, 0], axis=0)) > 1900  # colours differ


@pytest.mark.parametrize("level", [0, 40, 200, 255])
def test_ink_stands_out_from_black_and_white_as_well(level: int) -> None:
    shapes, behind = np.full((200, 1, 4, 4), 255, np.uint8), np.full((200, 3, 4, 4), level, np.uint8)
    out = render.over_photographs(shapes, behind, random_numbers("ink"), contrast=70, brighter=0.5)
    assert (abs(render.to_channels(out, 1)[:, 0].astype(int) - level) >= 69).all()


def test_coloured_digits_have_two_colours_with_contrast() -> None:
    shapes = digits()
    out = render.two_colours(shapes, random_numbers("two"), contrast=70)
    grey = render.to_channels(out, 1)[:, 0].astype(int)
    paper = np.array([g[s == 0] for g, s in zip(grey, shapes[:, 0], strict=True)], dtype=object)
    ink = [g[s == 255] for g, s in zip(grey, shapes[:, 0], strict=True)]
    for one, other in zip(paper, ink, strict=True):
        assert len(set(one)) == len(set(other)) == 1
        assert abs(one[0] - other[0]) >= 69
    brighter = [other[0] > one[0] for one, other in zip(paper, ink, strict=True)]
    assert 5 < sum(brighter) < 35


def test_outlines_leave_the_stroke_empty() -> None:
    shapes = np.zeros((1, 1, 28, 28), np.uint8)
    shapes[..., 8:20, 8:20] = 255
    drawn = render.outlines(shapes, random_numbers("outlines"), threshold=100, width=2)[0, 0]
    assert (drawn[10:18, 10:18] == 0).all()
    assert (drawn[:6] == 0).all()
    assert drawn[8, 10:18].min() > 60  # the border is drawn on every side
    assert drawn[19, 10:18].min() > 60


def test_grey_of_equal_channels_is_that_channel() -> None:
    grey = digits(3)
    np.testing.assert_array_equal(render.to_channels(render.to_channels(grey, 3), 1), grey)
