"""``residapt suggest``: a list of images that ``--target-labels`` takes once it is filled in."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import residapt
from residapt.data.labelled_target import LabelRecord, write_label_records
from residapt.data.labels_csv import read_label_file
from residapt.data.same_files import mark_of
from residapt.errors import ConfigError, DataError
from residapt.storage.run_directory import RunDirectory
from support.cli import invoke
from support.small_run import CLASSES


@pytest.fixture
def finished(run: RunDirectory, tmp_path: Path, draw: Callable[..., Path]) -> RunDirectory:
    """A finished run with twelve target images."""
    for seed in range(12):
        draw(tmp_path / "target" / f"roll {seed % 2}" / f"{seed}.png", seed)
    return run


def test_a_list_to_fill_in_is_written(finished: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("residapt.storage.summary.read_summary", lambda path: None)
    out = tmp_path / "few.csv"
    code, text = invoke("suggest", str(finished.path), "-n", "5", "-o", str(out), "--device", "cpu")
    assert code == 0, text
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["path"] for row in rows}) == 5
    assert {row["class"] for row in rows} == {""}
    with pytest.raises(DataError):  # nothing is filled in yet
        read_label_file(out, tmp_path / "target", CLASSES)
    with out.open("w", newline="") as file:
        csv.writer(file).writerows([("path", "class"), *((row["path"], "dog") for row in rows)])
    assert [line.label for line in read_label_file(out, tmp_path / "target", CLASSES)] == [CLASSES.index("dog")] * 5
    assert invoke("suggest", str(finished.path), "-o", str(out))[0] == 2, "an existing list is kept"


def test_images_that_have_labels_are_left_out(finished: RunDirectory, tmp_path: Path) -> None:
    files = sorted((tmp_path / "target").rglob("*.png"))
    records = [LabelRecord(file.name, "cat", mark_of(file)) for file in files[:9]]
    write_label_records(tuple(records), finished.labelled)
    found = residapt.suggest(finished.path, 50)
    assert {one.path for one in found} == {file.relative_to(tmp_path / "target").as_posix() for file in files[9:]}
    write_label_records(tuple(LabelRecord(file.name, "cat", mark_of(file)) for file in files), finished.labelled)
    with pytest.raises(ConfigError):
        residapt.suggest(finished.path, 50)


def test_a_rejected_network_is_asked_all_the_same(finished: RunDirectory) -> None:
    before = residapt.suggest(finished.path, 4)
    finished.rejected.mkdir()
    shutil.move(finished.model, finished.rejected / finished.model.name)
    shutil.copy(finished.source, finished.model)
    assert residapt.suggest(finished.path, 4) == before


def test_a_run_without_its_images_says_so(run: RunDirectory) -> None:
    with pytest.raises(ConfigError):
        residapt.suggest(run.path, 4)
    assert invoke("suggest", str(run.path))[0] == 2, "no summary: it has not finished"


def test_a_run_in_memory(tmp_path: Path) -> None:
    x, y = torch.randn(60, 6, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 2
    x[:, 0] += 2.0 * y
    settings = {"steps": 2, "verbose": False, "pretrain.steps": 60, "pretrain.lr": 0.05}
    run = residapt.adapt(nn.Linear(6, 2), source=(x, y), target=x, target_labels=(x[:20], y[:20]), **settings)
    found = residapt.suggest(run, 10)
    assert {one.index for one in found} <= set(range(20, 60)), "those with labels are left out"
    assert found == residapt.suggest(run, 10)
    logits = run.merge_and_unload()(x).detach()
    assert [one.after for one in found] == [run.summary.classes[int(logits[one.index].argmax())] for one in found]
