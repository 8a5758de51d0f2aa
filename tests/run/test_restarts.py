"""Several runs from different seeds, one of which a label-free score selects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import residapt
from residapt.errors import ConfigError
from residapt.run import restarts
from residapt.run.restarts import SCORE
from residapt.storage.summary import read_summary
from support.resume import Die, Fall

FEW = {"pretrain.steps": 12, "pretrain.allow_chance": True, "pretrain.lr": 0.02, "device": "cpu", "force": True}


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(90) % 3
    return torch.randn(3, 8, generator=generator)[labels] + 0.6 * torch.randn(90, 8, generator=generator), labels


def adapt(**given: Any) -> residapt.AdaptedRun:
    torch.manual_seed(0)
    x, y = data()
    network = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3))
    settings = {} if given.get("resume") else {"steps": 6, "restarts": 3, **FEW}
    return residapt.adapt(network, source=(x, y), target=x + 0.5, verbose=False, **{**settings, **given})


def weights(run: residapt.AdaptedRun) -> list[Tensor]:
    return list(run.network.state_dict().values())


@pytest.fixture(scope="module")
def single() -> list[residapt.AdaptedRun]:
    """The same restarts as runs of their own."""
    seeds = [0, *(restarts.derived_seed(0, "restart", number) for number in (2, 3))]
    return [adapt(restarts=1, seed=seed) for seed in seeds]


def test_the_best_by_the_score_is_selected(single: list[residapt.AdaptedRun]) -> None:
    scores = [run.summary.scores[SCORE][1] for run in single]
    assert len(set(scores)) == 3
    run = adapt()
    assert run.summary.scores[SCORE][1] == max(scores)
    torch.testing.assert_close(weights(run), weights(single[scores.index(max(scores))]), rtol=0, atol=0)
    assert all(f"{score:.3f}" in run.summary.notes[0] for score in scores)


def test_a_rejected_network_is_not_preferred(single: list[residapt.AdaptedRun]) -> None:
    one = single[0].summary
    rejected = one.model_copy(update={"verdict": one.verdict.model_copy(update={"selected": "source"})})
    poor = one.model_copy(update={"scores": {**one.scores, SCORE: (0.0, -1.0)}})
    assert restarts.Candidate(1, rejected, None).rank < restarts.Candidate(2, poor, None).rank


def test_the_selected_run_is_the_run_directory(single: list[residapt.AdaptedRun], tmp_path: Path) -> None:
    out = tmp_path / "run"
    run = adapt(out=out)
    assert {"config.toml", "summary.json", "report.html", "model.safetensors", "adapter"} <= {
        p.name for p in out.iterdir()
    }
    assert read_summary(out / "summary.json") == run.summary
    assert sorted(p.name for p in (out / "restarts").rglob("*") if p.is_file()) == ["summary.json"] * 3
    with pytest.raises(ConfigError, match="exists already"):
        adapt(out=out)


def test_stopped_restarts_go_on(single: list[residapt.AdaptedRun], tmp_path: Path) -> None:
    out = tmp_path / "run"
    ends = iter([7, 3])  # the first restart ends, the second one dies

    class Falls(residapt.Callback):
        def on_start(self, method: Any, step: int, steps: int) -> None:
            self.fall = Fall(next(ends, 7))

        def on_step(self, method: Any, step: int) -> None:
            self.fall.on_step(method, step)

    with pytest.raises(Die):
        adapt(out=out, callbacks=[Falls()])
    assert (out / "restarts/1/summary.json").exists()
    assert not (out / "restarts/2/summary.json").exists()
    run = adapt(out=out, resume=True)
    best = max(single, key=lambda one: one.summary.scores[SCORE][1])
    torch.testing.assert_close(weights(run), weights(best), rtol=0, atol=0)
