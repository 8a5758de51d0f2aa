"""``residapt.adapt`` on data sets, loaders and tensors, with networks of the user's own."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import residapt
from residapt.errors import ConfigError, DataError, ModelError
from residapt.evaluate import guard
from residapt.run import judge as finish_module
from residapt.run.judge import compare

QUIET = Console(quiet=True)
GENERATOR = torch.Generator().manual_seed(0)
CENTRES = 2 * torch.randn(3, 1, 6, 6, generator=GENERATOR)
LABELS = torch.arange(60) % 3


def images(shift: float) -> Tensor:
    return CENTRES[LABELS] + 0.5 * torch.randn(60, 1, 6, 6, generator=GENERATOR) + shift


SOURCE, TARGET, SCORED = images(0.0), images(0.6), images(0.6)


class Small(nn.Module):
    """Batch norm and dropout included, since they are where streams go wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.drop(torch.relu(self.norm(self.conv(x))).flatten(1)))
        return logits


def small(seed: int = 0) -> Small:
    torch.manual_seed(seed)
    return Small()


def quick(model: Any = None, **more: Any) -> residapt.run.AdaptedRun:
    settings: dict[str, Any] = {"steps": 6, "console": QUIET, "source.steps": 30, "source.lr": 1e-2, **more}
    settings.setdefault("source", (SOURCE, LABELS))
    settings.setdefault("target", TARGET)
    return residapt.adapt(small() if model is None else model, **settings)


def test_the_public_names_are_there_and_nothing_is_imported_early() -> None:
    import subprocess
    import sys

    assert callable(residapt.adapt)
    assert callable(residapt.load)
    assert residapt.TwoStream
    assert "rpt" in residapt.methods.method_names()
    code = "import sys, residapt; sys.exit('torch' in sys.modules or residapt.__version__ == '')"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    with pytest.raises(AttributeError, match="no attribute 'adopt'"):
        residapt.adopt  # noqa: B018


def test_a_network_and_tensors() -> None:
    model = small()
    kept = copy.deepcopy(model.state_dict())
    run = quick(model, evaluate=(SCORED, LABELS))
    assert all(torch.equal(kept[name], tensor) for name, tensor in model.state_dict().items())
    net = run.merge_and_unload()
    assert type(net) is Small
    assert not net.training
    with torch.no_grad():
        live = run.two.eval()(SCORED, stream="target" if run.verdict.handed_out == "adapted" else "source")
    if run.verdict.handed_out == "adapted":
        assert (net(SCORED) - live).abs().max() < 1e-5
    assert run.run is None
    assert run.summary.accuracies[0].protocol == "held-out"
    assert run.verdict == run.summary.verdict


def test_loaders_and_a_run_directory_give_an_adapter_that_loads(tmp_path: Path) -> None:
    loader = DataLoader(TensorDataset(SOURCE, LABELS), batch_size=8)
    target = DataLoader(TensorDataset(TARGET, LABELS), batch_size=8)
    run = quick(source=loader, target=target, out=tmp_path / "run", force=True)
    assert (tmp_path / "run" / "report.html").is_file()
    run.save_pretrained(tmp_path / "camera")
    back = residapt.load(small(1), tmp_path / "camera").eval()
    with torch.no_grad():
        assert torch.equal(back(TARGET, stream="target"), run.two.eval()(TARGET, stream="target"))
        assert torch.equal(back(TARGET, stream="target"), run.merge_and_unload()(TARGET))


def test_with_a_fixed_source_the_adapter_is_small_and_for_that_network_alone(tmp_path: Path) -> None:
    first = quick(train_source_first=True, train_source=False)
    base = first.source
    first.save_pretrained(tmp_path / "a")
    back = residapt.load(base, tmp_path / "a").eval()
    assert torch.equal(back(TARGET, stream="target"), first.two.eval()(TARGET, stream="target"))
    assert back.model.conv.weight is base.conv.weight  # one base in memory, many domains
    with pytest.raises(ModelError, match="has other values"):
        residapt.load(small(1), tmp_path / "a")


def test_an_untrained_network_is_trained_and_a_trained_one_is_not() -> None:
    first = quick()
    assert any("trained on the source first" in note for note in first.summary.notes)
    second = quick(first.source)
    assert second.source is not first.source
    assert all(torch.equal(a, b) for a, b in zip(first.source.parameters(), second.source.parameters(), strict=True))
    third = quick(train_source_first=False)
    untouched = small().state_dict()
    assert all(torch.equal(untouched[name], tensor) for name, tensor in third.source.state_dict().items())


def test_the_seed_decides_everything() -> None:
    runs = [quick(seed=seed, force=True).merge_and_unload()(SCORED) for seed in (1, 1, 2)]
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])


def test_target_labels_change_nothing() -> None:
    """The same run with right, wrong and no labels beside the target images."""
    results = []
    for rows in (TARGET, (TARGET, LABELS), (TARGET, LABELS.flip(0))):
        results.append(quick(target=rows, force=True).merge_and_unload()(SCORED))
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_scoring_changes_nothing() -> None:
    with_labels = quick(evaluate=(SCORED, LABELS), force=True, select="infomax")
    without = quick(force=True, select="infomax")
    assert torch.equal(with_labels.merge_and_unload()(SCORED), without.merge_and_unload()(SCORED))
    assert with_labels.verdict == without.verdict


def test_a_set_that_was_trained_on_is_stamped() -> None:
    run = quick(evaluate=(TARGET, LABELS))
    assert {a.protocol for a in run.summary.accuracies} == {"transductive"}
    part = quick(evaluate=(torch.cat([SCORED, TARGET[:1]]), torch.cat([LABELS, LABELS[:1]])))
    assert {a.protocol for a in part.summary.accuracies} == {"transductive"}


def test_the_guard_hands_out_the_source_network_unless_forced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def worse(before: Any, after: Any) -> guard.Verdict:
        found = compare(before, after)
        return guard.Verdict(False, found.votes, ("it looks worse",))

    monkeypatch.setattr(finish_module, "compare", worse)
    run = quick(out=tmp_path / "run")
    assert run.verdict.handed_out == "source"
    assert run.verdict.reasons == ("it looks worse",)
    assert torch.equal(run.merge_and_unload()(SCORED), run.source.eval()(SCORED))
    assert not (tmp_path / "run" / "adapter").exists()
    assert (tmp_path / "run" / "adapter-turned-down").is_dir()
    forced = quick(force=True)
    assert forced.verdict.handed_out == "adapted"
    assert forced.verdict.helped is False
    assert not torch.equal(forced.merge_and_unload()(SCORED), forced.source.eval()(SCORED))


def test_the_best_moment_by_a_score_is_kept() -> None:
    """With a learning rate that ruins the network the best moment is the first one looked at, or near it."""
    settings = {"train.network.lr": 0.5, "train.transform.lr": 0.5, "train.evaluate_every": 1, "force": True}
    last = quick(**settings)
    best = quick(select="source_accuracy", **settings)
    assert best.summary.selected.startswith("step ")
    assert best.summary.scores["source_accuracy"][1] > last.summary.scores["source_accuracy"][1]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"model": nn.Sequential(nn.Flatten(), nn.Linear(36, 4))}, ModelError, "has 4 outputs, but the source has 3"),
        ({"model": nn.Conv2d(3, 3, 3)}, ModelError, r"Conv2d cannot read images of shape \(1, 6, 6\)"),
        ({"source": SOURCE}, DataError, "tensor without labels"),
        ({"target": TARGET[:0]}, DataError, "there are no images"),
        ({"rank": {"wait": 3}}, ConfigError, "there is no setting 'rank.wait'"),
        ({"tensorboard": True}, ConfigError, "needs an output folder"),
        ({"target": torch.full((4, 1, 6, 6), torch.nan)}, DataError, "contains NaN"),
    ],
)
def test_wrong_input_is_refused(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        quick(**changes)


def test_a_spec_builds_a_network_for_any_data() -> None:
    pixels = torch.randint(0, 256, (40, 1, 28, 28), dtype=torch.uint8)
    run = residapt.adapt(
        "lenet",
        source=(pixels, torch.arange(40) % 4),
        target=pixels,
        steps=2,
        console=QUIET,
        **{"source.steps": 2},
    )
    assert run.summary.model == "lenet"
    assert run.merge_and_unload()(torch.zeros(2, 1, 28, 28)).shape == (2, 4)
