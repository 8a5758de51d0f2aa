"""``residapt.adapt`` on data sets, loaders and tensors, with networks of the user's own."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import residapt
from residapt.errors import ConfigError, DataError, ModelError, TrainingError
from residapt.evaluate import guard
from residapt.run import judge as judge_module
from residapt.run.judge import compare
from residapt.storage import read_model_metadata
from residapt.storage.run_directory import RunDirectory
from residapt.storage.summary import read_summary

QUIET = Console(quiet=True)
GENERATOR = torch.Generator().manual_seed(0)
CENTRES = 2 * torch.randn(3, 1, 6, 6, generator=GENERATOR)
LABELS = torch.arange(60) % 3


def images(shift: float) -> Tensor:
    return CENTRES[LABELS] + 0.5 * torch.randn(60, 1, 6, 6, generator=GENERATOR) + shift


SOURCE, TARGET, SCORED = images(0.0), images(0.6), images(0.6)
VECTORS: dict[str, Any] = {
    "model": nn.Linear(36, 3),
    "source": (SOURCE.flatten(1), LABELS),
    "target": TARGET.flatten(1),
}


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


class Small4(Small):
    """With one class more."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 4)


def small(seed: int = 0) -> Small:
    torch.manual_seed(seed)
    return Small()


def quick(model: Any = None, **more: Any) -> residapt.run.AdaptedRun:
    settings: dict[str, Any] = {"steps": 6, "console": QUIET, "pretrain.steps": 30, "pretrain.lr": 1e-2, **more}
    settings.setdefault("source", (SOURCE, LABELS))
    settings.setdefault("target", TARGET)
    return residapt.adapt(small() if model is None else model, **settings)


def test_a_network_and_tensors() -> None:
    model = small()
    kept = copy.deepcopy(model.state_dict())
    run = quick(model, evaluate=(SCORED, LABELS))
    assert all(torch.equal(kept[name], tensor) for name, tensor in model.state_dict().items())
    net = run.merge_and_unload()
    assert type(net) is type(run.network) is Small
    assert not net.training
    assert not run.network.training
    with torch.no_grad():
        assert (net(SCORED) - run.streams.eval()(SCORED, stream="target")).abs().max() < 1e-5
    assert run.directory is None
    assert run.summary.accuracies[0].protocol == "held-out"
    assert run.verdict == run.summary.verdict
    assert all(part in repr(run) for part in ("AdaptedRun(", "'rpt'", run.verdict.selected, "adapted="))


def test_the_ten_lines_of_the_readme_on_a_network_with_batch_norm(tmp_path: Path) -> None:
    """The loaded streams are in evaluation mode: the merged network's logits, for any batch, and nothing moves."""
    model = small().train()
    run = quick(model, out=tmp_path / "run")
    net = run.merge_and_unload()
    run.save_pretrained(tmp_path / "camera-7")
    streams = residapt.load(model, tmp_path / "camera-7")
    with torch.no_grad():
        assert (streams(SCORED, stream="target") - net(SCORED)).abs().max() < 1e-5
        again = torch.cat([streams(x, stream="target") for x in SCORED.split(7)])
        assert (again - net(SCORED)).abs().max() < 1e-5


def test_an_adapter_is_not_overwritten_unless_that_is_said(tmp_path: Path) -> None:
    run = quick()
    run.save_pretrained(tmp_path / "a")
    before = (tmp_path / "a" / "adapter_config.json").read_bytes()
    with pytest.raises(ConfigError) as error:
        quick(seed=1).save_pretrained(tmp_path / "a")
    assert str(tmp_path / "a") in str(error.value)
    assert (tmp_path / "a" / "adapter_config.json").read_bytes() == before
    quick(seed=1).save_pretrained(tmp_path / "a", overwrite=True)
    assert (tmp_path / "a" / "adapter_config.json").read_bytes() != before


def test_callbacks_see_the_adaptation_and_quiet_is_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    seen = []

    class Watch(residapt.Callback):
        def on_step(self, method: Any, step: int) -> None:
            seen.append((method.name, step))

    quick(callbacks=[Watch()], verbose=False, console=None)
    assert seen == [("rpt", step) for step in range(1, 7)]
    assert capfd.readouterr() == ("", "")


def test_loaders_and_a_run_directory_give_an_adapter_that_loads(tmp_path: Path) -> None:
    loader = DataLoader(TensorDataset(SOURCE, LABELS), batch_size=8)
    target = DataLoader(TensorDataset(TARGET, LABELS), batch_size=8)
    run = quick(source=loader, target=target, out=tmp_path / "run", force=True)
    assert (tmp_path / "run" / "report.html").is_file()
    run.save_pretrained(tmp_path / "camera")
    back = residapt.load(small(1), tmp_path / "camera").eval()
    with torch.no_grad():
        assert torch.equal(back(TARGET, stream="target"), run.streams.eval()(TARGET, stream="target"))
        assert torch.equal(back(TARGET, stream="target"), run.merge_and_unload()(TARGET))


def test_with_a_fixed_source_the_adapter_is_small_and_for_that_network_alone(tmp_path: Path) -> None:
    first = quick(train_source_first=True, freeze="base")
    base = first.source
    first.save_pretrained(tmp_path / "a")
    back = residapt.load(base, tmp_path / "a").eval()
    assert torch.equal(back(TARGET, stream="target"), first.streams.eval()(TARGET, stream="target"))
    assert back.model.conv.weight is base.conv.weight  # one base in memory, many domains
    with pytest.raises(ModelError, match=r"conv|norm|head"):
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


@pytest.fixture
def worse(monkeypatch: pytest.MonkeyPatch) -> None:
    """A guard that finds every adapted network worse."""

    def judge(before: Any, after: Any) -> guard.Judgement:
        return guard.Judgement(False, compare(before, after).votes, ("against: it looks worse",))

    monkeypatch.setattr(judge_module, "compare", judge)


@pytest.mark.usefixtures("worse")
def test_the_guard_selects_the_source_network_unless_forced(tmp_path: Path) -> None:
    run = quick(out=tmp_path / "run")
    assert (run.verdict.selected, run.verdict.chosen_by) == ("source", "guard")
    assert torch.equal(run.network(SCORED), run.source.eval()(SCORED))
    with torch.no_grad():  # what is merged and saved are the adapted streams, whatever the verdict
        adapted = run.streams.eval()(SCORED, stream="target")
        assert (run.merge_and_unload()(SCORED) - adapted).abs().max() < 1e-5
        run.save_pretrained(tmp_path / "camera")
        assert torch.equal(residapt.load(small(1), tmp_path / "camera")(SCORED, stream="target"), adapted)
    assert not (tmp_path / "run" / "adapter").exists()
    assert (tmp_path / "run" / "rejected" / "adapter").is_dir()
    forced = quick(force=True)
    assert (forced.verdict.selected, forced.verdict.chosen_by, forced.verdict.helped) == ("adapted", "force", False)
    assert not torch.equal(forced.network(SCORED), forced.source.eval()(SCORED))


@pytest.mark.usefixtures("worse")
def test_accept_and_reject_change_the_result_of_a_finished_run(tmp_path: Path) -> None:
    run = quick(out=tmp_path / "run", evaluate=(SCORED, LABELS))
    place, adapted = RunDirectory(tmp_path / "run"), run.merge_and_unload()
    pages = [place.report.read_text()]

    def selected() -> tuple[str, dict[str, Tensor]]:
        return read_model_metadata(place.model).method, load_file(place.model)

    def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
        return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)

    before = selected()
    assert before[0] == "source_only"
    for _ in range(2):  # the second time nothing is left to do
        summary = residapt.accept(place.path)
        assert summary == read_summary(place.summary)
        assert (summary.verdict.selected, summary.verdict.chosen_by, summary.verdict.helped) == (
            "adapted",
            "user",
            False,
        )
        assert selected()[0] == "rpt"
        assert same(selected()[1], adapted.state_dict())
        assert place.adapter.is_dir()
        assert not place.rejected.exists()
    pages.append(place.report.read_text())
    first, second = (one.percent for one in summary.accuracies)
    assert {one.used_for_choice for one in summary.accuracies} == {second > first}, "only what speaks for the choice"
    for _ in range(2):
        summary = residapt.reject(place.path)
        assert summary.verdict.selected == "source"
        assert selected()[0] == "source_only"
        assert same(selected()[1], before[1])
        assert not place.adapter.exists()
        assert (place.rejected / "adapter").is_dir()
        assert same(load_file(place.rejected / "model.safetensors"), adapted.state_dict())
    assert {one.used_for_choice for one in summary.accuracies} == {second < first}
    pages.append(place.report.read_text())
    assert pages[0] != pages[1] != pages[2]
    assert sum("by its labels" in reason for reason in summary.verdict.reasons) <= 1, "said once, however often chosen"


def test_a_source_network_at_chance_ends_the_run_unless_allowed() -> None:
    many = (torch.zeros(240, 1, 6, 6), torch.arange(240) % 3)
    hopeless = {"train_source_first": True, "pretrain.steps": 0, "source": many}
    with pytest.raises(TrainingError) as error:
        quick(**hopeless)
    assert "pretrain.allow_chance" in str(error.value)
    run = quick(**hopeless, **{"pretrain.allow_chance": True})
    assert any("33.3 %" in note for note in run.summary.notes)


def test_the_best_moment_by_a_score_is_kept() -> None:
    """With a learning rate that ruins the network the best moment is the first one looked at, or near it."""
    settings = {"train.network.lr": 0.5, "train.transform.lr": 0.5, "train.evaluate_every": 1, "force": True}
    last = quick(**settings)
    best = quick(select="source_accuracy", **settings)
    assert best.summary.selected.startswith("step ")
    assert best.summary.scores["source_accuracy"][1] > last.summary.scores["source_accuracy"][1]


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"model": nn.Sequential(nn.Flatten(), nn.Linear(36, 4))}, ModelError, ["4", "3"]),
        ({"model": nn.Conv2d(3, 3, 3)}, ModelError, ["Conv2d", "(1, 6, 6)"]),
        ({"model": small().state_dict()}, ConfigError, ["OrderedDict", "torch.nn.Module"]),
        ({"source": SOURCE}, DataError, ["source", "(images, labels)"]),
        ({"target": TARGET[:0]}, DataError, ["(0, 1, 6, 6)"]),
        ({"target": TARGET.expand(-1, 3, -1, -1)}, DataError, ["(3, 6, 6)", "(1, 6, 6)"]),
        ({"rank": {"wait": 3}}, ConfigError, ["rank.wait"]),
        ({"tensorboard": True}, ConfigError, ["tensorboard", "out="]),
        ({"target": torch.full((4, 1, 6, 6), torch.nan)}, DataError, ["NaN"]),
        (VECTORS | {"recipe": "plus"}, ConfigError, ["consistency.weight", "plus", "(36,)"]),
        (VECTORS | {"augment.rotate": 5.0}, ConfigError, ["augment", "(36,)"]),
    ],
)
def test_wrong_input_is_refused(changes: dict[str, Any], error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as found:
        quick(**changes)
    assert [word for word in words if word not in str(found.value)] == []


def test_doubtful_data_are_remarked_upon() -> None:
    run = quick(target=torch.cat([TARGET, SOURCE[:4]]))
    assert any("4 of the 64 target images" in note for note in run.summary.notes)
    alone = torch.cat([LABELS, torch.tensor([3])])
    notes = quick(Small4(), source=(torch.cat([SOURCE, SOURCE[:1]]), alone)).summary.notes
    assert any("single source image: 3" in note for note in notes)


def test_a_target_that_lacks_classes_is_told_so_in_the_notes() -> None:
    settings = {"pretrain.steps": 60, "steps": 10, "console": QUIET}
    said = []
    for target in (TARGET, TARGET[LABELS != 2]):
        run = residapt.adapt(small(), source=(SOURCE, LABELS), target=target, classes=["ant", "bee", "cat"], **settings)
        said.append([note for note in run.summary.notes if "seems to lack 1 of 3 source classes: 'cat'" in note])
    assert [len(notes) for notes in said] == [0, 1]


def test_a_spec_builds_a_network_for_any_data() -> None:
    pixels = torch.randint(0, 256, (40, 1, 28, 28), dtype=torch.uint8)
    run = residapt.adapt(
        "lenet",
        source=(pixels, torch.arange(40) % 4),
        target=pixels,
        steps=2,
        console=QUIET,
        **{"pretrain.steps": 2},
    )
    assert run.summary.model == "lenet"
    assert run.merge_and_unload()(torch.zeros(2, 1, 28, 28)).shape == (2, 4)
