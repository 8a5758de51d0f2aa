from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from residapt.errors import DataError
from residapt_bench.drones.patches import FOLDERS, names_digest, read_patches, read_uav


def write_uav(root: Path, per_folder: int = 8, side: int = 50) -> Path:
    for number, folder in enumerate(FOLDERS):
        (root / folder).mkdir(parents=True)
        for place in range(per_folder):
            Image.new("L", (side, side), 40 * number + place).save(root / folder / f"{place:02d}.png")
    return root


def test_every_folder_goes_to_its_place(tmp_path: Path) -> None:
    data = read_uav(write_uav(tmp_path))
    levels = [part[:, 0, 0, 0].tolist() for part in (data.synthetic, data.real, data.negatives)]
    test = data.tests[0]
    levels += [part[:, 0, 0, 0].tolist() for part in (test.drones, test.negatives)]
    assert levels == [[40 * number + place for place in range(8)] for number in range(5)]
    assert test.name == "target_test"
    assert data.source_negatives is data.negatives
    assert data.real.shape == (8, 1, 40, 40)


def test_validation_comes_from_the_training_patches(tmp_path: Path) -> None:
    data = read_uav(write_uav(tmp_path / "uav200").parent, validation=True)
    test = data.tests[0]
    assert test.name == "validation"
    assert data.real[:, 0, 0, 0].tolist() == [40 + place for place in range(6)]
    assert test.drones[:, 0, 0, 0].tolist() == [46, 47]
    assert data.negatives[:, 0, 0, 0].tolist() == [80 + place for place in range(6)]
    assert test.negatives[:, 0, 0, 0].tolist() == [86, 87]


def test_a_missing_folder_is_named_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "train/real").mkdir(parents=True)
    with pytest.raises(DataError, match=r"train/synthetic, train/negative, test/real, test/neg"):
        read_uav(tmp_path)


def test_an_empty_folder_and_a_single_image_are_refused(tmp_path: Path) -> None:
    write_uav(tmp_path, per_folder=1)
    with pytest.raises(DataError, match=r"\b1\b.*\b0\b"):
        read_uav(tmp_path, validation=True)
    (tmp_path / "train/negative/00.png").unlink()
    with pytest.raises(DataError, match="train/negative'"):
        read_uav(tmp_path)


def test_patches_are_grey_and_of_one_size(tmp_path: Path) -> None:
    Image.fromarray(np.full((90, 60, 3), (255, 0, 0), np.uint8)).save(tmp_path / "a.png")
    patches = read_patches([tmp_path / "a.png"])
    assert patches.shape == (1, 1, 40, 40)
    assert patches.unique().tolist() == [76]


def test_the_digest_changes_with_a_files_name_and_size(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"1")
    (tmp_path / "c").write_bytes(b"12")
    digests = {names_digest([tmp_path / name]) for name in "abc"}
    assert len(digests) == 3
