from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from bench_support.drone_photographs import pattern, write_photographs
from residapt.errors import DataError
from residapt_bench.drones.render.photographs import SMALLEST, cut, open_grey, patches_of, plain_cut, whole
from residapt_bench.drones.render.split import count_split, find_photographs, split_photographs

SETTINGS = {"labelled": 10, "birds": 0.5, "held": 0.3, "seed": 0}


def test_groups_stay_on_one_side_and_counts_are_exact(tmp_path: Path) -> None:
    found = split_photographs(write_photographs(tmp_path), **SETTINGS)  # type: ignore[arg-type]
    sides = [(one.side, one.kind) for one in found]
    assert sides.count(("train", "drone")) + sides.count(("validation", "drone")) == 10
    assert sides.count(("validation", "drone")) == 3
    assert sides.count(("train", "bird")) + sides.count(("validation", "bird")) == 12
    assert sides.count(("test", "drone")) == 14
    assert sides.count(("second", "drone")) == sides.count(("second", "bird")) == 5
    first = {one.path.name: one for one in found if (one.collection, one.kind) == ("first", "drone")}
    for number in range(4):  # a photograph and its mirror image
        assert first[f"{number:03d}.png"].side == first[f"{number + 20:03d}.png"].side
        assert first[f"{number:03d}.png"].group == first[f"{number + 20:03d}.png"].group


def test_a_second_photograph_like_a_training_one_is_left_out(tmp_path: Path) -> None:
    write_photographs(tmp_path)
    for number in range(20):
        pattern(number).save(tmp_path / f"dronebird/second/drone/twin{number:03d}.png")
    found = split_photographs(tmp_path, **SETTINGS)  # type: ignore[arg-type]
    trained = {one.group for one in found if one.side in ("train", "validation")}
    for one in found:
        if one.collection == "second":
            assert one.side == ("left out" if one.group in trained else "second")
    counts = count_split(found)
    assert counts.left_out == sum(one.side == "left out" for one in found) > 0
    assert counts.groups == len({one.group for one in found})
    assert sum(counts.by_side.values()) == counts.photographs == len(found)


def test_the_split_depends_on_the_seed(tmp_path: Path) -> None:
    write_photographs(tmp_path)
    first, again, other = (
        [one.side for one in split_photographs(tmp_path, **{**SETTINGS, "seed": seed})]  # type: ignore[arg-type]
        for seed in (0, 0, 1)
    )
    assert first == again != other


def test_missing_folders_are_named(tmp_path: Path) -> None:
    (tmp_path / "dronebird/first/drone").mkdir(parents=True)
    with pytest.raises(DataError, match="first/bird, second/drone, second/bird"):
        find_photographs(tmp_path)


def test_too_few_drones_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"\b24\b.*\b24\b"):
        split_photographs(write_photographs(tmp_path), **{**SETTINGS, "labelled": 24})  # type: ignore[arg-type]


def test_crops_depend_on_file_and_seed_only(tmp_path: Path) -> None:
    path = write_photographs(tmp_path) / "dronebird/first/bird/003.png"
    first, again, other = (np.stack(patches_of(path, 4, seed)) for seed in (0, 0, 1))
    assert first.shape == (5, 40, 40)
    assert (first == again).all()
    assert (first[0] == other[0]).all()
    assert (first[1:] != other[1:]).any()
    assert (first[0] == whole(open_grey(path))).all()


def test_cuts_lie_inside_and_are_never_enlarged() -> None:
    image, rng = pattern(0), np.random.default_rng(0)
    sides = [cut(image, rng).size for _ in range(200)]
    assert all(width == height and SMALLEST <= width < 128 for width, height in sides)
    assert min(sides)[0] < 55 < 120 < max(sides)[0]


def test_the_plain_cut_is_the_best_of_its_choices() -> None:
    image = pattern(0)
    rng = np.random.default_rng(5)
    cuts = [np.asarray(cut(image, rng), np.float32) for _ in range(6)]
    best = min(cuts, key=lambda one: one.std() - 0.5 * one.mean())
    assert (np.asarray(plain_cut(image, np.random.default_rng(5), 6), np.float32) == best).all()


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("RESIDAPT_DATA"), reason="RESIDAPT_DATA is not set")
def test_the_real_photographs_split_as_the_documentation_says() -> None:
    found = split_photographs(Path(os.environ["RESIDAPT_DATA"]), labelled=200, birds=0.4, held=0.25, seed=0)
    counts = count_split(found)
    assert (counts.photographs, counts.groups, counts.largest_group, counts.left_out) == (4202, 2716, 148, 5)
    assert counts.by_side["train drone"] + counts.by_side["validation drone"] == 200
    assert counts.by_side["test drone"] == 1367
    sides: dict[int, set[str]] = {}
    for one in found:
        side = "train" if one.side == "validation" else one.side
        sides.setdefault(one.group, set()).add("train" if side == "left out" else side)
    assert all("train" not in group or group == {"train"} for group in sides.values())
