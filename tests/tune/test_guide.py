"""The page docs/guide/tune.md: its commands and its Python code work as they stand."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import torch
import typer
from torch import nn

from residapt.cli import commands
from residapt.cli.app import app
from residapt.storage.summary import RunSummary
from residapt.tune import trial
from residapt.tune.search import NO_LABELS, NOT_SEARCHED, PRETRAIN, SAME_DATA
from residapt.tune.store import Outcome
from residapt.tune.study import SCORED
from support.cli import invoke
from support.small_study import small_request

pytest.importorskip("optuna", reason="needs the extra tune")

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "tune.md").read_text(encoding="utf-8")
SMALL = shlex.split(f"--trials 1 --steps 4 --score snd --set {PRETRAIN}.steps=10 --set device=cpu --set force=true")
"""Options for a search of seconds; the last --trials counts."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.S | re.M)


def page_commands() -> list[list[str]]:
    """The command lines of residapt, without the program's name."""
    text = "\n".join(blocks("")).replace("\\\n", " ")
    return [shlex.split(line, comments=True)[1:] for line in text.splitlines() if line.startswith("residapt ")]


@pytest.mark.parametrize("arguments", page_commands(), ids=" ".join)
def test_the_command_line_knows_every_option(arguments: list[str]) -> None:
    commands.register()
    command = typer.main.get_command(app).commands[arguments[0]]  # type: ignore[attr-defined]
    command.make_context(arguments[0], arguments[1:])  # reads the options, and runs nothing


def accept(summary: RunSummary, score: str, seconds: float) -> Outcome:
    """Four steps need not give a network that the guard accepts."""
    before, after = summary.scores[score]
    return Outcome("scored", after, before, seconds=seconds)


def test_the_first_commands_run(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search, the finished search again, and a run with its best settings, which is the best trial's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trial, "outcome_of", accept)
    (tmp_path / "photos").symlink_to(digits / "printed")
    (tmp_path / "new_site").symlink_to(digits / "written")
    search, adapt = page_commands()[:2]
    code, text = invoke(*search, *SMALL)
    assert code == 0, text
    assert f"--config {tmp_path / 'study' / 'best.toml'}" in text
    assert "snd" in text
    trials = tmp_path / "study" / "trials"
    before = {path: path.stat().st_mtime_ns for path in trials.rglob("*")}
    assert trials / "0000" / "report.html" in before
    assert invoke("tune", "--resume", "study/")[0] == 0
    assert {path: path.stat().st_mtime_ns for path in trials.rglob("*")} == before
    assert invoke(*adapt)[0] == 0
    first, again = (path / "adapter" / "adapter_model.safetensors" for path in (trials / "0000", tmp_path / "run"))
    assert first.read_bytes() == again.read_bytes()


def test_the_python_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:  # type: ignore[type-arg]
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("python")
    assert code.count('"train.steps=500"') == code.count("trials=10") == 1
    code = code.replace('"train.steps=500"', f'"train.steps=4", "{PRETRAIN}.steps=10"').replace("trials=10", "trials=1")
    made = small_request(tmp_path)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(256, 8), nn.Tanh(), nn.Linear(8, 3))
    (images, labels), unlabelled = made.source, made.target
    values = {"images": images, "labels": labels, "unlabelled": unlabelled, "network": network}
    exec(compile(code, "docs/guide/tune.md", "exec"), values)
    assert "discrepancy.weight" in capsys.readouterr().out


def test_it_names_every_score_and_what_cannot_be_searched() -> None:
    words = set(re.findall(r"`([^`\n]+)`", PAGE))
    assert set(SCORED) <= words
    named = {key for key, reason in NOT_SEARCHED.items() if reason not in (SAME_DATA, NO_LABELS)}
    assert {f"{PRETRAIN}.*", *named} <= words
    assert len(PAGE.split()) <= 900
