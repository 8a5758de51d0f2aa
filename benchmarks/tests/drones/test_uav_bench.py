from __future__ import annotations

from pathlib import Path

import pytest
import torch
from sklearn.metrics import average_precision_score

from residapt.data.domains import Labelled, TensorImages
from residapt.errors import ConfigError, DataError
from residapt.evaluate.predict import Evaluation
from residapt.methods.registry import build_method
from residapt.models import UavNet
from residapt_bench.digits.plan import SourceRecipe
from residapt_bench.drones import execute as uav_run
from residapt_bench.drones import task as uav_task
from residapt_bench.drones.execute import execute_detection, run_detection, score
from residapt_bench.drones.patches import DetectionData, ScoredSet
from residapt_bench.drones.plans import METHODS, DetectionPlan, best_tries, detection_plans
from residapt_bench.drones.tables import main_runs
from residapt_bench.drones.task import detection_task, half_each, labelled_drones, load_data
from residapt_bench.resumable import pending

TINY = ["train.steps=2", "train.batch_size=4", "rank.every=1", "discrepancy.hidden=[4]"]


def patches(count: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, 1, 40, 40), dtype=torch.uint8, generator=generator)


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> DetectionData:
    tests = (ScoredSet("target_test", patches(3, 5), patches(9, 6)), ScoredSet("second", patches(2, 7), patches(4, 8)))
    made = DetectionData(patches(8, 1), patches(10, 2), patches(6, 3), patches(20, 4), tests, ("made up",))
    monkeypatch.setattr(uav_run, "load_data", lambda *_, **__: made)
    return made


def plans(*methods: str, **others: object) -> list[DetectionPlan]:
    source = SourceRecipe(steps=1, batch_size=4)
    return detection_plans("uav", methods, [0], changes=TINY, source=source, **others)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_a_whole_record(method: str, data: DetectionData, tmp_path: Path) -> None:
    record = execute_detection(plans(method, labels=[4])[0], root=tmp_path, cache=tmp_path)
    assert record["labelled"] == (0 if method == "source_only" else 4)
    assert record["positives"] == {"target_test": 3, "second": 2}
    assert record["negatives"] == {"target_test": 9, "second": 4}
    assert all(0 < value <= 1 for value in record["ap"].values())
    assert bool(record["ranks"]["before"]) == method.startswith("rpt")
    assert record["parameters"]["after"]["deployed"] == sum(p.numel() for p in UavNet().parameters())
    assert record["data"] == {"official": False, "files": ("made up",)}


def test_plus_is_a_run_of_its_own(data: DetectionData, tmp_path: Path) -> None:
    plan, common = plans("rpt+", "rpt", labels=[4])
    assert (plan.method, plan.recipe, common.recipe) == ("rpt", "plus", "common")
    assert (plan.settings.prior.kind, plan.settings.consistency.kind) == ("estimated", "fixmatch")
    made = [execute_detection(each, root=tmp_path, cache=tmp_path) for each in (plan, common)]
    assert len(list(tmp_path.glob("uav-uavnet-*.safetensors"))) == 1
    other = plan.model_copy(update={"standardise": True})
    execute_detection(other, root=tmp_path, cache=tmp_path)
    assert len(list(tmp_path.glob("uav-uavnet-*.safetensors"))) == 2  # standardised images have a network of their own
    assert [len(main_runs(made, name)) for name in ("rpt+", "rpt")] == [1, 1]


def test_finished_runs_are_not_run_again(data: DetectionData, tmp_path: Path) -> None:
    out, seen = tmp_path / "r.jsonl", []
    grid = plans("source_only", "fine_tune", labels=[2, 6])
    assert [(plan.method, plan.labels) for plan in grid] == [("source_only", 0), ("fine_tune", 2), ("fine_tune", 6)]
    for _ in range(2):
        run_detection(grid, out=out, root=tmp_path, cache=tmp_path, on_record=seen.append)
    assert len(seen) == 3
    assert len(list(tmp_path.glob("uav-uavnet-*.safetensors"))) == 1  # one warm start for all methods
    assert not pending(grid, out)
    assert len(pending(plans("fine_tune", labels=[2], note="again"), out)) == 1


def test_precision_is_that_of_the_drone_class() -> None:
    torch.manual_seed(0)
    images = torch.randn(60, 1, 40, 40)
    labels = (torch.arange(60) % 6 == 0).long()
    method = build_method("source_only", UavNet(), example=images[:2])
    found = score(method, Evaluation("made up", Labelled(TensorImages(images), labels)))
    with torch.no_grad():
        probabilities = UavNet.forward(method.two.model, images).double().softmax(1)  # type: ignore[arg-type]
    assert found["ap"] == pytest.approx(average_precision_score(labels, probabilities[:, 1]), abs=1e-5)
    assert (found["positives"], found["negatives"]) == (10, 50)


def test_both_domains_are_half_drones_and_labels_are_few(data: DetectionData) -> None:
    task = detection_task(data, plans("rpt", labels=[4])[0])
    assert task.pair.few is not None
    assert task.pair.few.labels.bincount().tolist() == [20, 4]
    assert task.pair.source.labels.bincount().tolist() == [10, 8]
    assert task.pair.balance == "classes"
    assert len(task.pair.target) == 40
    assert detection_task(data, plans("rpt", labels=[0])[0]).pair.few is None


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
    with pytest.raises(ConfigError, match="without any it is source_only"):
        plans("rpt", "fine_tune", labels=[0, 10])
    with pytest.raises(ConfigError, match="no method 'rtp'"):
        plans("rtp")
    with pytest.raises(ConfigError, match="reads 28x28 images"):
        detection_task(data, plans("rpt")[0].model_copy(update={"arch": "lenet"}))
    with pytest.raises(ConfigError, match="no detection task 'uva'"):
        load_data("uva", tmp_path, tmp_path, validation=False)
    assert uav_task.CLASSES == ("negative", "drone")


def test_a_method_takes_the_settings_of_its_best_try() -> None:
    def tried(method: str, lr: float, seed: int, ap: float) -> dict[str, object]:
        changes = [*TINY, f"train.network.lr={lr}", f"discrepancy.weight={lr * 10}"]
        plan = detection_plans("uav", [method], [seed], changes=changes, part="validation", note=f"lr {lr}")[0]
        return {"key": plan.key(), "plan": plan.model_dump(mode="json"), "ap": {"validation": ap}}

    means = {0.1: (0.5, 0.7), 0.2: (0.8, 0.3), 0.3: (0.1, 0.2)}
    records = [tried("rpt", lr, seed, ap) for lr, values in means.items() for seed, ap in enumerate(values)]
    chosen = best_tries([*records, tried("adda", 0.3, 0, 0.2)])
    assert {name: choice.tries for name, choice in chosen.items()} == {"rpt": 3, "adda": 1}
    first, second = detection_plans("uav", ["rpt"], [5, 6], chosen=chosen, changes=["train.steps=9"])
    assert (first.train.network.lr, first.settings.discrepancy.weight, first.tries) == (0.1, 1.0, 3)
    assert (first.train.seed, first.train.steps, second.train.seed) == (5, 9, 6)
    assert (first.part, first.note, second.settings.transform.seed) == ("test", "", 6)
    with pytest.raises(DataError, match="have no tries"):
        best_tries([{"key": "k", "plan": {"part": "test"}}])
