from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageEnhance

from bench_support.drone_photographs import pattern
from residapt_bench.drones.render.near import THUMB, gradient_bits, groups_of, near_pairs, thumbnail

COUNT = 9


def test_bits_are_signs_of_neighbouring_cells() -> None:
    image = np.random.default_rng(0).uniform(0, 255, (1, THUMB, THUMB)).astype(np.float32)
    side = THUMB // 2
    cells = [[float(image[0, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].mean()) for j in range(side)] for i in range(side)]
    expected = [1.0 if cells[i][j + 1] > cells[i][j] else -1.0 for i in range(side) for j in range(side - 1)]
    expected += [1.0 if cells[i + 1][j] > cells[i][j] else -1.0 for i in range(side - 1) for j in range(side)]
    assert gradient_bits(image)[0].tolist() == expected


@pytest.mark.parametrize("change", list(Image.Transpose))
def test_mirrored_and_turned_copies_are_near(change: Image.Transpose) -> None:
    images = [pattern(n) for n in range(5)]
    thumbs = np.stack([thumbnail(image) for image in [*images, images[3].transpose(change)]])
    assert near_pairs(thumbs).tolist() == [[3, 5]]


def test_brighter_and_noisy_copies_are_near_and_others_are_not() -> None:
    images = [pattern(n) for n in range(12)]
    rng = np.random.default_rng(1)
    noisy = Image.fromarray((np.asarray(images[2], float) + rng.normal(0, 8, (128, 128))).clip(0, 255).astype(np.uint8))
    thumbs = np.stack([thumbnail(one) for one in [*images, ImageEnhance.Brightness(images[0]).enhance(0.8), noisy]])
    assert near_pairs(thumbs).tolist() == [[0, 12], [2, 13]]


def test_plain_skies_of_one_brightness_are_near_though_their_gradients_are_noise() -> None:
    rng = np.random.default_rng(2)
    skies = (np.array([180.0, 180.0, 120.0])[:, None, None] + rng.normal(0, 2, (3, THUMB, THUMB))).astype(np.float32)
    differing = (gradient_bits(skies[:1]) != gradient_bits(skies[1:2])).sum()
    assert differing > 28
    assert near_pairs(skies).tolist() == [[0, 1]]


@given(st.lists(st.tuples(st.integers(0, COUNT - 1), st.integers(0, COUNT - 1)), max_size=14))
def test_groups_are_the_connected_components(pairs: list[tuple[int, int]]) -> None:
    reach = {i: {i} for i in range(COUNT)}
    for _ in range(COUNT):
        for i, j in pairs:
            both = reach[i] | reach[j]
            for k in both:
                reach[k] = reach[k] | both
    assert groups_of(COUNT, pairs) == sorted(sorted(group) for group in {frozenset(g) for g in reach.values()})
