from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from bench_support.drone_photographs import write_photographs
from residapt.errors import DataError
from residapt_bench.drones.render import standin
from residapt_bench.drones.render.compare import comparison, contact_sheet, patch_numbers
from residapt_bench.drones.render.standin import StandInConfig, detection_data, load_standin

SMALL = StandInConfig(labelled=10, birds=0.5, held=0.3, synthetic=6, source_negatives=5, crops=2)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photographs(tmp_path_factory.mktemp("photographs"))


def test_patches_are_made_once_and_kept(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, int, int]] = []
    first, counts = load_standin(root, tmp_path, SMALL, on_count=lambda *what: told.append(what))
    assert told[-1] == ("drones", 6, 6)
    monkeypatch.setattr(standin, "build_standin", lambda *_: pytest.fail("drawn again"))
    again, same = load_standin(root, tmp_path, SMALL)
    assert counts == same
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not list(tmp_path.glob("*.tmp"))


def test_the_same_seed_draws_the_same_patches(root: Path, tmp_path: Path) -> None:
    drawn = [load_standin(root, tmp_path / str(n), SMALL)[0]["synthetic"] for n in range(2)]
    other = load_standin(root, tmp_path, SMALL.model_copy(update={"seed": 1}))[0]["synthetic"]
    assert torch.equal(*drawn)
    assert not torch.equal(drawn[0], other)


def test_negatives_outnumber_drones_where_it_is_scored(root: Path, tmp_path: Path) -> None:
    found, counts = load_standin(root, tmp_path, SMALL)
    for validation, names in ((False, ("target_test", "second")), (True, ("validation",))):
        data = detection_data(found, counts, validation=validation)
        assert tuple(test.name for test in data.tests) == names
        assert all(len(test.negatives) >= 20 * len(test.drones) for test in data.tests)
        assert len(data.real) == (7 if validation else 10)
    assert len(found["train bird"]) >= (1 + SMALL.crops) * 8


def test_nothing_that_is_scored_was_trained_on(root: Path, tmp_path: Path) -> None:
    found, counts = load_standin(root, tmp_path, SMALL)
    for validation in (False, True):
        data = detection_data(found, counts, validation=validation)
        trained = {patch.numpy().tobytes() for part in (data.real, data.negatives) for patch in part}
        for test in data.tests:
            assert not any(p.numpy().tobytes() in trained for part in (test.drones, test.negatives) for p in part)


def test_a_part_without_birds_is_refused(tmp_path: Path) -> None:
    write_photographs(tmp_path, second=(2, 1))
    for path in (tmp_path / "dronebird/first/bird").glob("*.png"):
        path.unlink()
    Image.new("L", (128, 128)).save(tmp_path / "dronebird/first/bird/only.png")
    with pytest.raises(DataError, match="drones and"):
        load_standin(tmp_path, tmp_path / "cache", SMALL)


def test_numbers_of_a_square_on_an_even_ground() -> None:
    patch = np.full((1, 40, 40), 100, np.uint8)
    patch[0, 10:20, 5:25] = 160
    found = {name: float(values[0]) for name, values in patch_numbers(patch).items()}
    assert found["background"] == 100
    assert found["clutter of the border (std)"] == 0
    assert found["share of the patch that differs"] == pytest.approx(200 / 1600)
    assert found["height of what differs"] == pytest.approx(10 / 40)
    assert found["width of what differs"] == pytest.approx(20 / 40)
    assert found["difference of what differs"] == pytest.approx(60)
    assert found["contrast (std)"] == pytest.approx(float(patch.std()))


def test_the_sheet_shows_every_set(tmp_path: Path) -> None:
    sets = {name: np.full((5, 40, 40), level, np.uint8) for name, level in (("dark", 30), ("light", 220))}
    contact_sheet(sets, tmp_path / "sheets/a.png", across=3, down=2, zoom=1)
    values = np.asarray(Image.open(tmp_path / "sheets/a.png"))
    assert values.shape == (16 + 80, 2 * 120 + 8)
    assert values[16:56, :120].max() == 30
    assert (values[16:56, 128:] == 220).all()
    rows = comparison(sets)
    assert rows[0] == ("number", "dark", "light")
    assert rows[1] == ("brightness", "30 / 30 / 30", "220 / 220 / 220")
    with pytest.raises(DataError, match="does not end in"):
        contact_sheet(sets, tmp_path / "a.jpg")
