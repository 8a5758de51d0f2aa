from __future__ import annotations

import numpy as np
import pytest

from bench_support.drone_photographs import pattern
from residapt_bench.drones.render.draw import SIDE, Looks, contrast, draw_photograph, expose, studio


def test_a_drawn_photograph_depends_on_its_seed_only() -> None:
    first, again, other = (
        np.asarray(draw_photograph(pattern(0), np.random.default_rng(seed), Looks())) for seed in (3, 3, 4)
    )
    assert first.shape == (SIDE, SIDE)
    assert (first == again).all()
    assert (first != other).any()


def test_drones_stand_out_from_what_is_behind_them() -> None:
    behind = pattern(0).point(lambda value: 120)
    looks = Looks(studio=0.0, large=1.0, small=0.0)
    for seed in range(5):
        drawn = np.asarray(draw_photograph(behind, np.random.default_rng(seed), looks), np.float32)
        empty = np.asarray(
            expose(np.full((SIDE, SIDE), 120 / 255, np.float32), np.random.default_rng(seed)), np.float32
        )
        assert drawn.std() > empty.std() + 5


def test_contrast_is_the_mean_difference_under_the_cover() -> None:
    cover = np.zeros((4, 4), np.float32)
    cover[0, :2] = (1.0, 0.5)
    behind = np.full((4, 4), 0.5, np.float32)
    scene = behind + np.where(cover > 0, 0.25, 0.0).astype(np.float32)
    assert contrast(scene, behind, cover) == pytest.approx(0.25)
    assert contrast(behind, behind, 0 * cover) == 0


def test_studio_leaves_almost_no_structure() -> None:
    background = np.asarray(pattern(1), np.float32) / 255
    for seed in range(10):
        assert studio(background, np.random.default_rng(seed)).std() <= 0.08 * background.std() + 1e-6
