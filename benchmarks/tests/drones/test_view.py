from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from residapt_bench.drones.render.craft import craft_faces, sample_craft
from residapt_bench.drones.render.solids import Face, blade, loft, ring, tube
from residapt_bench.drones.render.view import View, render, sample_view, shades

LEVEL = View(0.0, 0.0, 0.0, 6.0, 0.5, 1.0, (0.5, 0.5), (0.0, 0.0, 1.0), 0.6, 0.3, 0.1, (0.0, 0.0))
ABOVE = replace(LEVEL, elevation=np.pi / 2 - 1e-6)
SQUARE = np.array([[-1.0, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]])


def box(cover: np.ndarray) -> tuple[float, float, float, float]:
    rows, columns = np.flatnonzero(cover.max(axis=1) > 0.5), np.flatnonzero(cover.max(axis=0) > 0.5)
    return float(rows[0]), float(rows[-1] + 1), float(columns[0]), float(columns[-1] + 1)


def test_ring_satisfies_its_equation() -> None:
    points = ring(np.array([1.0, 2, 3]), (2.0, 0.5), 17, power=3.0) - [1, 2, 3]
    assert np.allclose(np.abs(points[:, 0] / 2) ** 3 + np.abs(points[:, 1] / 0.5) ** 3, 1)
    assert np.allclose(points[:, 2], 0)


@pytest.mark.parametrize("end", [[0.0, 0, 2], [1.0, 2, 3], [0.0, -2, 0]])
def test_tube_is_round_and_as_long_as_asked(end: list[float]) -> None:
    start, stop = np.array([0.5, 0.0, 0.0]), np.array(end)
    first, last = (face.points for face in tube(start, stop, (0.3, 0.1), 0.5)[:2])
    axis = (stop - start) / np.linalg.norm(stop - start)
    for points, centre, radius in ((first, start, 0.3), (last, stop, 0.1)):
        assert np.allclose(np.linalg.norm(points - centre, axis=1), radius)
        assert np.allclose((points - centre) @ axis, 0)


def test_loft_has_all_sides_and_both_ends() -> None:
    rings = [ring(np.array([0.0, 0, z]), (1.0, 1.0), 5) for z in range(4)]
    faces = loft(rings, 0.5)
    assert len(faces) == 2 + 3 * 5
    area = sum(np.linalg.norm(np.cross(f.points[1] - f.points[0], f.points[3] - f.points[0])) for f in faces[2:])
    assert area == pytest.approx(3 * 5 * np.linalg.norm(rings[0][1] - rings[0][0]))


def test_blade_spans_both_sides_of_its_hub() -> None:
    points = blade(np.zeros(3), 0.7, 0.5, 0.05, 0.2).points
    along = points @ np.array([np.cos(0.7), np.sin(0.7), 0.0])
    assert along.min() == pytest.approx(-0.5)
    assert along.max() == pytest.approx(0.5)


@pytest.mark.parametrize("extent", [0.25, 0.5, 0.75])
def test_the_picture_has_its_extent_and_place(extent: float) -> None:
    _, cover = render([Face(SQUARE, 0.5)], replace(ABOVE, extent=extent, centre=(0.4, 0.6)), 128)
    top, bottom, left, right = box(cover)
    assert bottom - top == pytest.approx(128 * extent, abs=2)
    assert right - left == pytest.approx(128 * extent, abs=2)
    assert (left + right) / 2 == pytest.approx(128 * 0.4, abs=1.5)
    assert (top + bottom) / 2 == pytest.approx(128 * 0.6, abs=1.5)


def test_near_things_are_larger_and_in_front() -> None:
    low, high = Face(SQUARE - [0, 0, 1.5], 1.0), Face(SQUARE * 0.9 + [0, 0, 1.5], 0.0)
    light, cover = render([high, low], replace(ABOVE, extent=0.9), 96)
    assert light[48, 48] == 0
    assert cover[48, 48] == 1
    # From 6 away: 0.9 / 4.5 of the near square against 1 / 7.5 of the far one, which it hides.
    assert light.max() == 0


def test_sun_shades_by_the_cosine() -> None:
    tilt = 0.5
    turned = SQUARE @ np.array([[1, 0, 0], [0, np.cos(tilt), np.sin(tilt)], [0, -np.sin(tilt), np.cos(tilt)]])
    flat = replace(ABOVE, sky=0.2, ground=0.2)
    eye = np.array([0.0, 0.0, 6.0])
    found = shades([Face(SQUARE, 0.5), Face(turned, 0.5)], np.stack([SQUARE, turned]), flat, eye)
    assert found.tolist() == pytest.approx([0.5 * (0.2 + 0.6), 0.5 * (0.2 + 0.6 * np.cos(tilt))])


def test_from_below_only_the_ground_lights() -> None:
    found = shades([Face(SQUARE, 0.5)], SQUARE[None], LEVEL, np.array([0.0, 0.0, -6.0]))
    assert found.tolist() == pytest.approx([0.5 * LEVEL.ground])


def test_a_turning_rotor_lets_light_through() -> None:
    view = replace(ABOVE, sun=(0.0, 0.0, 1.0), direct=0.0, sky=1.0, extent=0.8)
    light, cover = render([Face(SQUARE, 0.8, alpha=0.25)], view, 64)
    assert cover[32, 32] == pytest.approx(0.25, abs=0.01)
    assert light[32, 32] == pytest.approx(0.25 * 0.8, abs=0.01)
    behind = Face(SQUARE - [0, 0, 1.0], 0.4)
    light, cover = render([Face(SQUARE, 0.8, alpha=0.25), behind], view, 64)
    assert cover[32, 32] == 1
    assert light[32, 32] == pytest.approx(0.25 * 0.8 + 0.75 * 0.4, abs=0.01)


def test_motion_spreads_light_and_keeps_its_sum() -> None:
    still = replace(ABOVE, extent=0.3)
    (light, cover), (moved_light, moved_cover) = (
        render([Face(SQUARE, 0.7)], view, 96) for view in (still, replace(still, blur=(0.1, 0.0)))
    )
    assert moved_cover.sum() == pytest.approx(cover.sum(), rel=0.02)
    assert moved_light.sum() == pytest.approx(light.sum(), rel=0.02)
    assert (moved_cover > 0.02).sum() > 1.2 * (cover > 0.02).sum()


def test_a_stretched_view_is_higher() -> None:
    heights = []
    for stretch in (1.0, 1.5):
        _, cover = render([Face(SQUARE, 0.5)], replace(ABOVE, extent=0.9, stretch=stretch), 96)
        top, bottom, left, right = box(cover)
        heights.append((bottom - top) / (right - left))
    assert heights == pytest.approx([1.0, 1.5], rel=0.05)


@pytest.mark.parametrize("seed", range(6))
def test_any_drone_can_be_drawn_from_anywhere(seed: int) -> None:
    rng = np.random.default_rng(seed)
    faces = craft_faces(sample_craft(rng), rng)
    light, cover = render(faces, sample_view(rng, 0.8), 64)
    assert np.isfinite(light).all()
    assert 0.02 < float(cover.mean()) < 0.8
    assert bool((light <= cover + 0.02).all())
