"""``--resume RUN --select SCORE`` of a finished run: from the checkpoints that were kept, as if asked at once."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from residapt.config import load_config
from residapt.storage.checkpoint import steps_in
from residapt.storage.run_directory import RunDirectory
from residapt.storage.summary import read_summary
from support.cli import invoke
from support.digit_folders import QUICK, Run

# Scores are computed at the steps of the checkpoints, so that both ways choose among the same moments.
EVERY = ("--set", "train.evaluate_every=4", "--set", "train.checkpoint_every=4", "--set", "discrepancy.weight=3")


def test_checkpoints_go_when_the_run_has_finished(finished: Run) -> None:
    assert not RunDirectory(finished.path).checkpoint.exists()
    code, text = invoke("adapt", "--resume", str(finished.path), "--select", "infomax")
    assert code == 2
    assert read_summary(RunDirectory(finished.path).summary).selected == "last", "the run is as it was"
    way = shlex.split(text.partition("residapt adapt ")[2])
    assert way[-2:] == ["-o", "NEW"]
    assert str(finished.path) in way
    code, text = invoke("adapt", *way, "--dry-run")
    assert code == 0, text


@pytest.mark.slow
def test_selecting_later_is_selecting_at_once(digits: Path, tmp_path: Path) -> None:
    common = ("-s", str(digits / "printed"), "-t", str(digits / "written"), *QUICK, *EVERY)
    first, second = tmp_path / "first", tmp_path / "second"
    code, text = invoke("adapt", *common, "-o", str(first), "--keep-checkpoints")
    assert code == 0, text
    assert steps_in(RunDirectory(first).checkpoint / "adapt") == [20, 16, 12, 8, 4, 0]
    metrics = [json.loads(line) for line in RunDirectory(first).metrics.read_text().splitlines()]
    looks = {one["step"]: one["values"] for one in metrics if one["kind"] == "scores" and one["step"]}
    # A score whose best moment is not the last one, else the test could not fail.
    score = next(name for name in looks[4] if max(looks, key=lambda step: looks[step][name]) != max(looks))
    code, text = invoke("adapt", "--resume", str(first), "--select", score)
    assert code == 0, text
    assert load_config(RunDirectory(first).config).select == score
    assert invoke("adapt", *common, "-o", str(second), "--select", score)[0] == 0
    summaries = [read_summary(RunDirectory(path).summary) for path in (first, second)]
    assert summaries[0].selected.split(",")[0] == summaries[1].selected.split(",")[0]
    assert summaries[0].scores == summaries[1].scores
    networks = [load_file(path / "model.safetensors") for path in (first, second)]
    assert all(torch.equal(networks[0][name], tensor) for name, tensor in networks[1].items())
    code, text = invoke("adapt", "--resume", str(first), "--select", "last")
    assert code == 0, text
    assert read_summary(RunDirectory(first).summary).selected == "last"
