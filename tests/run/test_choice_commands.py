"""``residapt accept`` and ``reject``: the commands, what is printed, and that results stay usable."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from residapt.deploy import load_run
from residapt.storage.run_directory import RunDirectory
from residapt.storage.summary import read_summary, write_summary
from support.cli import invoke
from support.digit_folders import Run


@pytest.fixture
def run(finished: Run, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished.path, tmp_path / "run"))


def logits(path: Path) -> torch.Tensor:
    pixels = torch.arange(2 * 28 * 28).remainder(256).to(torch.uint8).reshape(2, 1, 28, 28)
    return load_run(path).logits(pixels)


def with_accuracies(run: Path, before: float, after: float) -> None:
    place = RunDirectory(run).summary
    summary = read_summary(place)
    percent = {"source_only": before, "adapted": after}
    accuracies = [one.model_copy(update={"percent": percent[one.stage]}) for one in summary.accuracies]
    write_summary(summary.model_copy(update={"accuracies": accuracies}), place)


def test_there_and_back_again(run: Path) -> None:
    adapted = logits(run)
    code, text = invoke("reject", str(run))
    assert code == 0
    rejected = run / "rejected" / "model.safetensors"
    assert str(rejected) in text, "how to use the network that was not selected"
    assert f"residapt accept {run}" in text
    assert torch.equal(logits(run), logits(run / "source.safetensors"))
    assert torch.equal(logits(rejected), adapted)
    assert invoke("predict", str(rejected), str(RunDirectory(run).path / "none"))[0] == 2
    code, text = invoke("accept", str(run))
    assert code == 0
    assert f"residapt reject {run}" in text
    assert torch.equal(logits(run), adapted)


@pytest.mark.parametrize("again", [("accept",), ("adapt", "--force", "--resume")])
def test_accept_and_resume_with_force_select_the_adapted_network(again: tuple[str, ...], run: Path) -> None:
    adapted = logits(run)
    invoke("reject", str(run))
    with_accuracies(run, 40.0, 70.0)
    code, text = invoke(*again, str(run))
    assert code == 0
    lines = [line for line in text.splitlines() if line]
    first = next(number for number, line in enumerate(lines) if "40.0 %" in line and "70.0 %" in line)
    assert first < next(number for number, line in enumerate(lines) if line.startswith("  ")), "labels come first"
    assert torch.equal(logits(run), adapted)
    summary = read_summary(RunDirectory(run).summary)
    assert all(one.used_for_choice for one in summary.accuracies)
    assert summary.verdict.reasons[0].startswith("for: ")
    assert "40.0 %" in summary.verdict.reasons[0]


def test_labels_that_disagree_with_the_guard_are_mentioned(run: Path) -> None:
    place = RunDirectory(run).summary
    summary = read_summary(place)
    for selected, before, after, command in (
        ("source", 40.0, 70.0, "accept"),
        ("adapted", 70.0, 40.0, "reject"),
        ("adapted", 40.0, 70.0, None),
    ):
        verdict = summary.verdict.model_copy(update={"selected": selected, "chosen_by": "guard"})
        write_summary(summary.model_copy(update={"verdict": verdict}), place)
        with_accuracies(run, before, after)
        _, text = invoke("adapt", "--resume", str(run))
        offered = [text.count(f"residapt {name} {run}") for name in ("accept", "reject")]
        usual = "accept" if selected == "source" else "reject"  # which the line about the other network says
        assert offered == [(name == usual) + (name == command) for name in ("accept", "reject")]


def test_a_run_that_has_not_finished_is_refused(run: Path) -> None:
    RunDirectory(run).summary.unlink()
    for command in ("accept", "reject"):
        code, text = invoke(command, str(run))
        assert code == 2
        assert str(run) in text
