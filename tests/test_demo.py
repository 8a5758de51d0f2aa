"""The demonstration is a run like any other, on folders of digits that it writes."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import residapt.demo
from residapt.demo import DigitFolders, images_beside, run_demo, write_digits
from residapt.storage.run_directory import RunDirectory
from residapt.storage.summary import read_summary
from support.cli import invoke

SMALL: dict[str, Any] = {
    "model": {"spec": "lenet"},
    "pretrain": {"steps": 60, "allow_chance": True},
    "train": {"steps": 4, "batch_size": 16},
    "force": True,
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A demonstration through the command line, and what it printed."""
    out = tmp_path_factory.mktemp("demo") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(residapt.demo, "SETTINGS", SMALL)
        patch.setattr(residapt.demo.run_demo, "__kwdefaults__", {**run_demo.__kwdefaults__, "printed": 300})
        code, text = invoke("demo", "-o", str(out))
    assert code == 0, text
    return out, text


def files(folder: Path) -> dict[str, bytes]:
    """Names of the files in a folder, with their class, and their content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.png"))}


def test_the_command_leaves_a_whole_run_and_prints_what_came_of_it(place: tuple[Path, str]) -> None:
    out, text = place
    run = RunDirectory.open(out)
    assert all(file.exists() for file in (run.report, run.model, run.summary, run.adapter, run.source))
    summary = read_summary(run.summary)
    assert [(one.stage, one.images, one.protocol) for one in summary.accuracies] == [
        ("source_only", 899, "held-out"),
        ("adapted", 899, "held-out"),
    ]
    assert (summary.source_images, summary.target_images) == (300, 898)
    for word in ("conv1", "accuracy", str(run.report), "residapt adapt -s", "--seed 0"):
        assert word in text


def test_other_commands_work_on_the_run(place: tuple[Path, str], tmp_path: Path) -> None:
    out, _ = place
    predictions = tmp_path / "predictions.csv"
    code, text = invoke("predict", str(out), str(images_beside(out).held_out), "-o", str(predictions))
    assert code == 0, text
    with predictions.open() as file:
        assert len(list(csv.DictReader(file))) == 899
    report = RunDirectory(out).report
    report.unlink()
    code, text = invoke("report", str(out))
    assert code == 0, text
    assert report.stat().st_size > 10_000


def test_it_refuses_to_overwrite_a_run(place: tuple[Path, str]) -> None:
    out, _ = place
    before = (out / "summary.json").read_bytes()
    code, text = invoke("demo", "-o", str(out))
    assert code == 2
    assert str(out) in text
    assert (out / "summary.json").read_bytes() == before


def test_the_scored_half_is_not_in_training(tmp_path: Path) -> None:
    folders = DigitFolders(tmp_path)
    write_digits(folders, seed=0, printed=20)
    train, scored = (
        [Image.open(path).tobytes() for path in sorted(folder.rglob("*.png"))]
        for folder in (folders.handwritten, folders.held_out)
    )
    assert len(train) + len(scored) == 1797
    # scikit-learn's digits hold a few exact copies of one image; apart from those the halves are disjoint.
    assert sum(image in set(train) for image in scored) <= 3


def test_the_images_follow_from_the_seed_and_leave_none_of_another(tmp_path: Path) -> None:
    first, second = DigitFolders(tmp_path / "first"), DigitFolders(tmp_path / "second")
    for folders, seeds in ((first, (1,)), (second, (0, 1))):
        for seed in seeds:
            write_digits(folders, seed=seed, printed=60)
    assert files(first.folder) == files(second.folder)
    write_digits(second, seed=0, printed=60)
    assert files(first.printed) != files(second.printed)
    assert files(first.held_out) == files(second.held_out)


def test_the_demo_is_reproducible(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    settings = {**SMALL, "pretrain": {**SMALL["pretrain"], "steps": 3}}
    runs = [run_demo(tmp_path / name, seed=1, settings=settings, printed=100) for name in ("a", "b")]
    first, second = ([one.percent for one in run.summary.accuracies] for run in runs)
    assert first == second
