"""What programs rely on: exit codes, JSON alone on the standard output, quiet, no colours, logging, completion."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import residapt
from support.cli import invoke
from support.digit_folders import QUICK


def shell(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "residapt", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}, timeout=120
    )


def test_exit_codes_and_streams() -> None:
    done = shell("config", "seed", "--json")
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, {"seed": 0}, "")
    done = shell("inspect", "nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert "nowhere" in done.stderr
    assert shell("no-such-command").returncode == 2


def test_no_color_wins_over_a_terminal() -> None:
    terminal = {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    colour = re.compile(r"\x1b\[(?:\d+;)*3\d")
    assert colour.search(shell("--help", **terminal).stdout)
    assert not colour.search(shell("--help", **terminal, NO_COLOR="1").stdout)


@pytest.mark.slow
def test_adapt_for_a_program(digits: Path, tmp_path: Path) -> None:
    """Progress is beside the JSON, and nowhere if it shall be quiet."""
    given = ("adapt", "-s", str(digits / "printed"), "-t", str(digits / "written"), *QUICK)
    done = shell(*given, "-o", str(tmp_path / "run"), "--json", "-q")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert found == json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    code, text = invoke("adapt", "--resume", str(tmp_path / "run"), "--json")
    assert code == 0
    assert json.loads(text) == found


def test_the_library_prints_nothing_and_logs(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    random = torch.Generator().manual_seed(0)
    x, y = torch.randn(60, 6, generator=random), torch.arange(60) % 2
    x[:, 0] += 4.0 * y
    with caplog.at_level(logging.INFO, logger="residapt"):
        residapt.adapt(
            nn.Linear(6, 2), source=(x, y), target=x, steps=2, verbose=False, **{"pretrain.steps": 50, "device": "cpu"}
        )
    assert capfd.readouterr() == ("", "")
    assert {record.levelname for record in caplog.records} == {"INFO", "WARNING"}
    handlers = logging.getLogger("residapt").handlers
    assert any(isinstance(handler, logging.NullHandler) for handler in handlers)


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_completion(name: str) -> None:
    done = shell("--show-completion", name, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert done.returncode == 0, done.stderr
    assert "RESIDAPT_COMPLETE" in done.stdout.upper().replace("-", "_")
