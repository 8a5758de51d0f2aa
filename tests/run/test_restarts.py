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
from residapt.run.restarts import SCORE, Candidate
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


def agreements(runs: list[residapt.AdaptedRun]) -> list[float]:
    """How often each run predicts what another one does, on the mean over the others."""
    x = data()[0] + 0.5
    with torch.no_grad():
        predicted = [run.merge_and_unload()(x).argmax(1) for run in runs]
    shares = [[float((one == other).double().mean()) for other in predicted] for one in predicted]
    return [(sum(row) - 1) / (len(runs) - 1) for row in shares]


def test_the_run_that_the_others_agree_with_is_selected(single: list[residapt.AdaptedRun]) -> None:
    shares = agreements(single)
    best = shares.index(max(shares))
    assert shares.count(max(shares)) == 1
    run = adapt()
    torch.testing.assert_close(weights(run), weights(single[best]), rtol=0, atol=0)
    assert f"restart {best + 1} of 3" in run.summary.notes[0]
    assert all(f"{share:.1%}" in run.summary.notes[0] for share in shares)


def candidate(single: list[residapt.AdaptedRun], number: int, classes: list[int], **changes: Any) -> Candidate:
    """A restart that predicts these classes of the first images."""
    summary = single[0].summary.model_copy(update=changes)
    return Candidate(number, summary, {str(image): label for image, label in enumerate(classes)}, None)


def test_a_rejected_network_is_not_preferred_and_the_score_decides_between_equals(
    single: list[residapt.AdaptedRun],
) -> None:
    one = single[0].summary
    rejected = one.verdict.model_copy(update={"selected": "source"})
    poor, good = ({**one.scores, SCORE: (0.0, value)} for value in (-1.0, 1.0))
    lone = candidate(single, 3, [1, 1, 1])
    found = [candidate(single, 1, [0, 0, 0], verdict=rejected), candidate(single, 2, [0, 0, 0]), lone]
    assert max(found, key=lambda each: each.rank(found)).number == 2
    assert [each.rank(found)[1] for each in found] == [0.5, 0.5, 0.0]
    two = [candidate(single, 1, [0, 1], scores=poor), candidate(single, 2, [1, 1], scores=good)]
    assert max(two, key=lambda each: each.rank(two)).number == 2


def test_images_that_both_were_scored_on_are_compared(single: list[residapt.AdaptedRun]) -> None:
    found = [candidate(single, 1, [0, 1, 2, 2]), candidate(single, 2, [0, 1, 0])]
    assert found[0].agreement(found[1:]) == found[1].agreement(found[:1]) == pytest.approx(2 / 3)


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
    shares = agreements(single)
    torch.testing.assert_close(weights(run), weights(single[shares.index(max(shares))]), rtol=0, atol=0)
    assert not list(out.rglob(restarts.PREDICTED))
