from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn.metrics import average_precision_score

from bench_support.records import drone_record
from residapt.data.domains import Labelled, TensorImages
from residapt.errors import ConfigError
from residapt.evaluate.predict import Evaluation
from residapt.methods.registry import build_method
from residapt.models import UavNet
from residapt.settings import merged
from residapt_bench.drones import experiment
from residapt_bench.drones.experiment import DroneExperiment, detection_task, half_each, labelled_drones
from residapt_bench.drones.patches import DetectionData, ScoredSet
from residapt_bench.drones.tables import NAMES, main_runs
from residapt_bench.experiment import execute, recorded
from residapt_bench.experiment_file import ExperimentFile, RunSet, best_settings
from residapt_bench.plan import DroneSetup, Plan
from residapt_bench.record import Record, append_record

SHORT = {
    "train": {"steps": 2, "batch_size": 4},
    "rank": {"every": 1},
    "discrepancy": {"hidden": [4]},
}


def patches(count: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, 1, 40, 40), dtype=torch.uint8, generator=generator)


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> DetectionData:
    tests = (ScoredSet("target_test", patches(3, 5), patches(9, 6)), ScoredSet("second", patches(2, 7), patches(4, 8)))
    made = DetectionData(patches(8, 1), patches(10, 2), patches(6, 3), patches(20, 4), tests, ("made up",))
    monkeypatch.setattr(experiment, "load_data", lambda *_, **__: made)
    return made


def plans(*methods: str, labels: tuple[int, ...] = (200,), **more: Any) -> list[Plan]:
    source, changes = {"steps": 1, "batch_size": 4}, more.pop("set", {})
    sets = [
        RunSet(
            tasks=("uav",), methods=methods, setup={"labels": count}, source=source, set=merged(SHORT, changes), **more
        )
        for count in labels
    ]
    return ExperimentFile(title="drones", runs=tuple(sets)).plans()


@pytest.mark.parametrize("label", NAMES)
def test_every_method_gives_a_whole_record(label: str, data: DetectionData, tmp_path: Path) -> None:
    method, _, recipe = label.removesuffix(")").partition(" (")
    record = execute(plans(method, recipes=(recipe or "common",), labels=(4,))[0], root=tmp_path, cache=tmp_path)
    assert record.labelled == (0 if method == "source_only" else 4)
    assert {name: (score.positives, score.negatives) for name, score in record.scores.items()} == {
        "target_test": (3, 9),
        "second": (2, 4),
    }
    assert all(0 < record.precision(name) <= 1 for name in record.scores)
    assert bool(record.ranks.before) == method.startswith("rpt")
    assert record.parameters.after["deployed"] == sum(p.numel() for p in UavNet().parameters())
    assert (record.data.official, record.data.files) == (False, ("made up",))
    assert Record.model_validate_json(record.model_dump_json()) == record


def test_plus_is_a_run_of_its_own(data: DetectionData, tmp_path: Path) -> None:
    common, plan = plans("rpt", recipes=("common", "plus"), labels=(4,))
    assert (plan.method, plan.recipe, common.recipe) == ("rpt", "plus", "common")
    assert (plan.settings.prior.kind, plan.settings.consistency.kind) == ("estimated", "fixmatch")
    made = [execute(each, root=tmp_path, cache=tmp_path) for each in (plan, common)]
    assert len(list(tmp_path.glob("source-uavnet-*.safetensors"))) == 1
    execute(plan.model_copy(update={"standardise": True}), root=tmp_path, cache=tmp_path)
    assert len(list(tmp_path.glob("source-uavnet-*.safetensors"))) == 2  # standardised images: another network
    assert [len(main_runs(made, name)) for name in ("rpt (plus)", "rpt")] == [1, 1]


def test_the_source_network_needs_no_labels_and_is_one_run(data: DetectionData) -> None:
    found = plans("source_only", "fine_tune", labels=(2, 6))
    assert [(plan.method, plan.setup.labels) for plan in found] == [
        ("source_only", 0),
        ("fine_tune", 2),
        ("fine_tune", 6),
    ]


def test_precision_is_that_of_the_drone_class() -> None:
    torch.manual_seed(0)
    images = torch.randn(60, 1, 40, 40)
    labels = (torch.arange(60) % 6 == 0).long()
    method = build_method("source_only", UavNet(), example=images[:2])
    found = DroneExperiment().score(method, Evaluation("made up", Labelled(TensorImages(images), labels)))
    with torch.no_grad():
        probabilities = UavNet.forward(method.streams.model, images).double().softmax(1)  # type: ignore[arg-type]
    assert found.average_precision == pytest.approx(average_precision_score(labels, probabilities[:, 1]), abs=1e-5)
    assert (found.positives, found.negatives) == (10, 50)


def test_both_domains_are_half_drones_and_labels_are_few(data: DetectionData) -> None:
    task = detection_task(data, plans("rpt", labels=(4,))[0])
    assert task.pair.few is not None
    assert task.pair.few.labels.bincount().tolist() == [20, 4]
    assert task.pair.source.labels.bincount().tolist() == [10, 8]
    assert task.pair.balance == "classes"
    assert len(task.pair.target) == 40
    assert detection_task(data, plans("rpt", labels=(0,))[0]).pair.few is None


def test_the_target_repeats_the_rarer_kind_evenly() -> None:
    index = half_each(7, 3)
    assert (index < 7).sum() == (index >= 7).sum() == 7
    assert sorted(index[index < 7].tolist()) == list(range(7))
    counts = (index[index >= 7] - 7).bincount(minlength=3)
    assert counts.max() - counts.min() <= 1


def test_fewer_labels_are_part_of_more() -> None:
    few, more, other = labelled_drones(200, 10, 1), labelled_drones(200, 50, 1), labelled_drones(200, 10, 2)
    assert set(few.tolist()) < set(more.tolist())
    assert set(few.tolist()) != set(other.tolist())
    assert len(set(labelled_drones(30, 200, 0).tolist())) == 30


def test_what_cannot_be_is_refused(data: DetectionData, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"fine_tune.*labels"):
        plans("rpt", "fine_tune", labels=(0, 10))
    with pytest.raises(ConfigError, match="'rtp'"):
        plans("rtp")
    with pytest.raises(ConfigError, match="28x28"):
        detection_task(data, plans("rpt")[0].model_copy(update={"arch": "lenet"}))


def test_a_method_takes_the_settings_of_its_best_variant(tmp_path: Path) -> None:
    means = {0.1: (0.5, 0.7), 0.2: (0.8, 0.3), 0.3: (0.1, 0.2)}
    for lr, values in means.items():
        changes = {"train": {"network": {"lr": lr}}, "discrepancy": {"weight": lr * 10}}
        for plan, value in zip(plans("rpt", seeds=(0, 1), set=changes, note=f"lr {lr}"), values, strict=True):
            tried = plan.model_copy(update={"setup": DroneSetup(part="validation")})
            record = drone_record("rpt", value, part="validation")
            append_record(tmp_path / "tries.jsonl", record.model_copy(update={"plan": recorded(tried)}))
    runs = RunSet(tasks=("uav",), methods=("rpt",), seeds=(5, 6), chosen_from="tries", set={"train": {"steps": 9}})
    first, second = ExperimentFile(title="best", runs=(runs,)).plans(results=tmp_path)
    assert (first.train.network.lr, first.settings.discrepancy.weight, first.tries) == (0.1, 1.0, 3)
    assert (first.train.seed, first.train.steps, second.train.seed) == (5, 9, 6)
    assert (first.setup, first.note, second.settings.transform.seed) == (DroneSetup(), "", 6)
    with pytest.raises(ConfigError):
        best_settings([drone_record("rpt", 0.5)])
