"""Runs whose first stages are frozen: their outputs are computed once, and the result reads images like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import residapt
from residapt.config import load_config
from residapt.models.cut_choice import CutChoice
from residapt.models.cut_points import CutPoint
from residapt.run import AdaptedRun, cut, defaults, outputs, stages
from residapt.run.clock import Pace, StepCost
from residapt.storage.run_directory import RunDirectory
from support.resume import Die, Fall
from support.tiny_run import TinyNet

SETTINGS: dict[str, Any] = {
    "steps": 6,
    "force": True,
    "train": {"batch_size": 8},
    "pretrain": {"steps": 4, "allow_chance": True},
    "transform": {"left_rank": 3},
    "views": {"precision": "float32"},
    "verbose": False,
}
FREEZE = ("conv", "norm")


def world() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(3)
    labels = torch.arange(40) % 3
    centres = torch.randn(3, 1, 8, 8, generator=generator)
    source, target = (centres[labels] + 0.4 * torch.randn(40, 1, 8, 8, generator=generator) for _ in range(2))
    return {"source": (source, labels), "target": target + 0.5}


def network() -> nn.Module:
    torch.manual_seed(0)
    return TinyNet(dropout=0.0)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> AdaptedRun:
    """A finished run with every kind of data."""
    data = world()
    labels = torch.arange(40) % 3
    return residapt.adapt(
        network(),
        **data,
        target_labels=(data["target"][:6], labels[:6]),
        evaluate=(data["target"][6:], labels[6:]),
        freeze=FREEZE,
        out=tmp_path_factory.mktemp("frozen") / "run",
        **SETTINGS,
    )


def test_frozen_stages_stay_as_they_were_and_the_rest_is_trained(run: AdaptedRun) -> None:
    before, after = network().state_dict(), run.merge_and_unload().state_dict()
    assert before.keys() == after.keys() == run.source.state_dict().keys()
    for name, tensor in before.items():
        assert torch.equal(tensor, after[name]) == name.startswith(("conv.", "norm.")), name
    assert set(run.streams.ranks()) == {"full", "head"}
    assert (run.summary.frozen.last, run.summary.frozen.views) == ("norm", 8)
    assert run.summary.frozen.reason


def test_everything_that_leaves_the_run_reads_images(run: AdaptedRun) -> None:
    images = world()["target"]
    with torch.no_grad():
        merged = run.merge_and_unload()(images)
        torch.testing.assert_close(run.network(images), merged)
        torch.testing.assert_close(run.streams(images, stream="target"), merged)
        torch.testing.assert_close(run.streams(images, stream="source"), _logits_of_source_stream(run, images))


def _logits_of_source_stream(run: AdaptedRun, images: Tensor) -> Tensor:
    frozen = run.setup.frozen
    assert frozen is not None
    logits: Tensor = run._finished.method.predict(frozen.stages(images), "source")
    return logits


def test_the_adapter_fits_the_whole_network(run: AdaptedRun, tmp_path: Path) -> None:
    run.save_pretrained(tmp_path / "adapter")
    again = residapt.load(run.source, tmp_path / "adapter")
    images = world()["target"]
    with torch.no_grad():
        torch.testing.assert_close(again(images, stream="target"), run.streams(images, stream="target"))


def test_the_accuracy_is_that_of_the_network_on_images(run: AdaptedRun) -> None:
    images, labels = world()["target"][6:], torch.arange(6, 40) % 3
    with torch.no_grad():
        percent = 100 * float((run.merge_and_unload()(images).argmax(1) == labels).double().mean())
    (adapted,) = [one for one in run.summary.accuracies if one.stage == "adapted"]
    assert adapted.percent == pytest.approx(percent)


def test_the_time_of_each_part_is_told(run: AdaptedRun) -> None:
    parts = {"reading", "planning", "frozen stages", "source training", "adaptation", "checks", "scoring", "report"}
    assert set(run.summary.seconds) == parts
    assert all(seconds >= 0 for seconds in run.summary.seconds.values())
    assert run.summary.steps == {"source training": 4, "adaptation": 6}


@pytest.mark.parametrize(("seconds", "views"), [(10.0, 8), (270.0, 5), (1e6, 2)])
def test_a_busy_machine_computes_fewer_views(seconds: float, views: int, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Pace(StepCost(0.01, 0.01), StepCost(0.01, 0.01), forward=1e-3, views=seconds)
    monkeypatch.setattr(defaults, "measure", lambda setup, source: slow)
    run = residapt.adapt(network(), **world(), freeze=FREEZE, **SETTINGS, minutes=10)
    assert run.summary.frozen.views == views
    assert run.setup.config.views.count == views


def test_outputs_are_gone_when_the_run_has_ended(run: AdaptedRun) -> None:
    assert run.directory is not None
    assert not run.directory.outputs.exists()
    assert run.directory.summary.exists()


def test_a_run_that_was_stopped_computes_nothing_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, whole = world(), residapt.adapt(network(), **world(), freeze=FREEZE, out=tmp_path / "whole", **SETTINGS)
    real, computed = stages._listeners, outputs.stage_outputs
    with monkeypatch.context() as patch:
        patch.setattr(
            stages, "_listeners", lambda plan, at, name: [*real(plan, at, name), *([Fall(3)] * (name == "adapt"))]
        )
        with pytest.raises(Die):
            residapt.adapt(network(), **data, freeze=FREEZE, out=tmp_path / "run", **SETTINGS)
    assert RunDirectory(tmp_path / "run").outputs.is_dir()
    found = []

    def look(*args: Any, **options: Any) -> Any:
        made = computed(*args, **options)
        found.append(made.found)
        return made

    monkeypatch.setattr(outputs, "stage_outputs", look)
    again = residapt.adapt(network(), **data, out=tmp_path / "run", resume=True, verbose=False)
    assert found == [True, True]
    assert again.summary.frozen == whole.summary.frozen
    for name, tensor in whole.streams.state_dict().items():
        assert torch.equal(tensor, again.streams.state_dict()[name]), name


def chosen(name: str) -> Any:
    """A choice that was made by the time."""

    def choose(points: list[CutPoint], *, pretrained: bool, **about: Any) -> CutChoice:
        point = next((one for one in points if name in one.names), None)
        return CutChoice(point, "the test says so.", 2 if point else 0)

    return choose


def test_where_time_asks_for_it_the_choice_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cut, "choose_cut", chosen("full"))
    run = residapt.adapt(network(), **world(), train_source_first=False, out=tmp_path / "run", **SETTINGS)
    assert run.directory is not None
    written = load_config(run.directory.config)
    assert written == run.setup.config
    assert isinstance(written.freeze, tuple)
    assert {"conv", "norm", "drop", "full"} == set(written.freeze)
    assert written.views.count == 2
    assert set(run.streams.ranks()) == {"head"}


def test_a_layer_that_the_method_reads_is_not_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cut, "choose_cut", chosen("full"))
    settings = {**SETTINGS, "transform": {"left_rank": 3, "features": "full"}}
    run = residapt.adapt(network(), **world(), train_source_first=False, **settings)
    assert run.setup.config.freeze == "none"
    assert run.summary.frozen.last is None
    assert any("trained whole" in text and "'full'" in text for text in run.summary.notes)


def test_named_stages_that_are_not_the_first_are_frozen_in_the_whole_network() -> None:
    run = residapt.adapt(network(), **world(), freeze=("full",), **SETTINGS)
    assert run.setup.frozen is None
    assert set(run.streams.ranks()) == {"conv", "head"}
    before, after = network().state_dict(), run.merge_and_unload().state_dict()
    assert torch.equal(before["full.weight"], after["full.weight"])


def test_a_network_without_weights_is_trained_whole() -> None:
    run = residapt.adapt(network(), **world(), **SETTINGS)
    assert run.setup.frozen is None
    assert run.setup.config.freeze == "none"
    assert "pre-trained" in run.summary.frozen.reason


def test_outputs_of_few_images_that_are_large_are_kept_in_single_precision() -> None:
    large = network()
    with torch.no_grad():
        large.norm.weight.fill_(1e5)
    settings = {name: value for name, value in SETTINGS.items() if name != "views"}
    run = residapt.adapt(large, **world(), freeze=FREEZE, **settings)
    assert run.summary.frozen.precision == "float32"


def test_files_that_were_computed_already_are_not_computed_again() -> None:
    class Named:
        def __init__(self, files: tuple[Path, ...]) -> None:
            self.files, self.train, self.plain = files, object(), object()

        def __len__(self) -> int:
            return len(self.files)

    values = residapt.data.domains.TensorImages(torch.arange(4.0)[:, None])
    files = tuple(Path(name) for name in "abcd")
    table = outputs._Table()
    table.keep(Named(files), outputs._Outputs(values, values, values))  # type: ignore[arg-type]
    some = Named((files[2], files[0]))
    assert table.has(some)  # type: ignore[arg-type]
    index, generator = torch.tensor([0, 1]), torch.Generator()
    assert table.plain(some.plain).fetch(index, generator).flatten().tolist() == [2.0, 0.0]  # type: ignore[arg-type]
    assert not table.has(Named((files[0], Path("e"))))  # type: ignore[arg-type]


def test_second_views_of_photographs_are_strongly_changed_and_pseudo_labels_are_of_the_others() -> None:
    run = residapt.adapt(network(), **world(), freeze=FREEZE, **{**SETTINGS, "recipe": "default"})
    config, pair = run.setup.config.method_config, run.setup.pair
    assert (config.augment.strength, config.consistency.view) == ("mixed", "strong")
    generator, index = torch.Generator().manual_seed(0), torch.zeros(400, dtype=torch.long)
    seen = {name: images.fetch(index, generator) for name, images in (("first", pair.target), ("second", pair.views))}
    different = {name: {tuple(row.flatten().tolist()) for row in rows} for name, rows in seen.items()}
    assert not different["first"] & different["second"]
    count = run.summary.frozen.views
    assert len(different["first"]) == (count + 1) // 2
    assert len(different["second"]) == count // 2
    source = pair.source.images.fetch(index, generator)  # labelled images are drawn from both halves
    assert len({tuple(row.flatten().tolist()) for row in source}) == count
