"""Times in metrics.jsonl go on after a stop."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from residapt.run import recorded_config, run_request, stages
from residapt.train import Callback, Method
from support.small_study import small_request


class Die(BaseException):
    """The end of a process, for a test."""


class SlowThenDie(Callback):
    def on_start(self, method: Method, step: int, steps: int) -> None:
        time.sleep(2.0)

    def on_step(self, method: Method, step: int) -> None:
        if step == 4:
            raise Die


def test_seconds_go_on_from_the_time_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, real = tmp_path / "run", stages._listeners
    request = small_request(run, **{"train.steps": 6, "pretrain.steps": 1, "train.checkpoint_every": 3})
    with monkeypatch.context() as patch:
        patch.setattr(
            stages, "_listeners", lambda p, r, name: [*real(p, r, name), *([SlowThenDie()] * (name == "adapt"))]
        )
        with pytest.raises(Die):
            run_request(request)
    run_request(replace(request, config=recorded_config(run), resume=True))
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    after = [line for line in lines if line["stage"] == "adapt" and line["step"] > 3]
    assert {"step", "scores", "accuracy"} <= {line["kind"] for line in after}
    assert min(line["seconds"] for line in after) > 2.0
    assert max(line["seconds"] for line in after) < 60.0
