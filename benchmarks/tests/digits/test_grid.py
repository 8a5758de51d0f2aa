from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench_support.small_digits import small_digits, small_plans
from residapt.data.config import AugmentConfig
from residapt.errors import DataError, Interrupted
from residapt.methods import DiscrepancyConfig, MethodConfig
from residapt.train import TrainConfig
from residapt_bench import resumable
from residapt_bench.digits import grid
from residapt_bench.digits.execute import execute
from residapt_bench.digits.plan import Plan, make_plans
from residapt_bench.digits.recipe_plans import each_setting, recipe_plans


def plans(methods: tuple[str, ...] = ("dann_flip", "rpt"), seeds: range = range(2), varied: str = "all") -> list[Plan]:
    return make_plans(
        "svhn-mnist", "lenet", methods, seeds, train=TrainConfig(), settings=MethodConfig(), varied=varied
    )


def test_runs_of_one_seed_are_paired():
    dann, rpt = plans(seeds=range(3, 4))
    assert dann.source == rpt.source
    assert dann.train.seed == rpt.train.seed == 3
    assert dann.settings.transform.seed == 3
    assert dann.key() != rpt.key()


def test_varying_the_order_only_keeps_warm_start_and_initialisation():
    first, second = plans(("rpt",), range(2), varied="order")
    assert first.source == second.source
    assert first.settings == second.settings
    assert first.train.seed != second.train.seed


def test_key_depends_on_every_setting():
    plan = plans()[0]
    other = plan.model_copy(update={"settings": MethodConfig.parse({"rank": {"weight": 0.5}})})
    assert plan.key() != other.key()
    assert plan.key() == Plan.model_validate_json(plan.model_dump_json()).key()


def test_finished_runs_are_not_repeated_and_interruption_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ran: list[str] = []

    def fake(plan: Plan, *, root: Path, cache: Path) -> dict[str, object]:
        if len(ran) == 2:
            raise KeyboardInterrupt
        ran.append(plan.key())
        return {"key": plan.key()}

    monkeypatch.setattr(grid, "execute", fake)
    out = tmp_path / "records.jsonl"
    with pytest.raises(Interrupted, match="stopped with 2 of 4 runs done"):
        grid.run_grid(plans(), out=out, root=tmp_path, cache=tmp_path)
    assert [record["key"] for record in resumable.read_records([out])] == ran
    monkeypatch.setattr(grid, "execute", lambda plan, *, root, cache: {"key": plan.key()})
    grid.run_grid(plans(), out=out, root=tmp_path, cache=tmp_path)
    keys = [record["key"] for record in resumable.read_records([out])]
    assert sorted(keys) == sorted(plan.key() for plan in plans())


def test_a_line_cut_off_by_a_crash_is_left_out_and_the_next_record_is_whole(tmp_path: Path):
    out = tmp_path / "records.jsonl"
    out.write_text('{"key": "a"}\n{"key": "b", "acc')
    assert [record["key"] for record in resumable.read_records([out])] == ["a"]
    resumable.append_record(out, {"key": "c"})
    assert json.loads(out.read_text().splitlines()[-1]) == {"key": "c"}


def test_damage_in_the_middle_is_named(tmp_path: Path):
    out = tmp_path / "records.jsonl"
    out.write_text('{"key": "a"}\nnonsense\n{"key": "b"}\n')
    with pytest.raises(DataError, match="line 2"):
        resumable.read_records([out])


def test_settings_that_came_later_do_not_repeat_old_runs(tmp_path: Path):
    """A record of an older version lacks a setting; its default stands for it, as the run had it then."""
    plan, other = plans(("rpt",))
    written = plan.model_dump(mode="json")
    del written["train"]["clip"], written["settings"]["penalty"], written["varied"]
    out = tmp_path / "records.jsonl"
    resumable.append_record(out, {"key": "of another version", "plan": written})
    assert grid.pending([plan, other], out) == [other]
    changed = plan.model_copy(update={"train": plan.train.model_copy(update={"clip": 1.0})})
    assert grid.pending([changed], out) == [changed]


def test_a_plan_of_a_later_version_counts_by_its_key(tmp_path: Path):
    plan, other = plans(("rpt",))
    out = tmp_path / "records.jsonl"
    resumable.append_record(out, {"key": plan.key(), "plan": {**plan.model_dump(mode="json"), "new_setting": 1}})
    resumable.append_record(out, {"key": "unknown", "plan": None})
    assert grid.pending([plan, other], out) == [other]


def test_source_only_after_a_warm_start_is_one_run_whatever_is_planned_after_it(tmp_path: Path):
    plan = plans(("source_only",), range(1))[0]
    weak = plan.settings.model_copy(update={"discrepancy": DiscrepancyConfig(weight=0.3)})
    none = plan.model_copy(update={"train": plan.train.model_copy(update={"steps": 0}), "settings": weak, "tries": 7})
    out = tmp_path / "records.jsonl"
    resumable.append_record(out, {"key": none.key(), "plan": none.model_dump(mode="json")})
    assert grid.pending([plan], out) == []
    cold = plan.model_copy(update={"source": plan.source.model_copy(update={"steps": 0})})
    changed = plan.model_copy(update={"settings": MethodConfig(augment=AugmentConfig(shift=2))})
    assert grid.pending([cold, changed], out) == [cold, changed]


def test_precision_is_a_setting_of_the_run_and_reaches_the_network(tmp_path: Path):
    plan = recipe_plans("mnist-usps", "lenet", ["rpt"], [0], changes=["precision=bf16"])[0]
    assert plan.precision == "bf16"
    assert plan.key() != plan.model_copy(update={"precision": "float32"}).key()
    root, cache = small_digits(tmp_path), tmp_path / "cache"
    single = small_plans(1, steps=3, methods=("rpt",))[0]
    half = single.model_copy(update={"precision": "bf16"})
    curves = [execute(one, root=root, cache=cache)["label_free"]["infomax"][1] for one in (single, half)]
    assert curves[0] != curves[1]
    assert curves[0] == pytest.approx(curves[1], rel=0.05)
    assert len(list(cache.glob("*.safetensors"))) == 2, "each precision has a warm start of its own"


def test_every_try_has_its_own_settings_and_is_named_by_them():
    tried = each_setting(["stream_weight=0.1", "rank.weight=2  rank.every=7"], ["train.steps=5"], "second round:")
    assert [note for _, note in tried] == [
        "second round: stream_weight=0.1",
        "second round: rank.weight=2 rank.every=7",
    ]
    first, second = [
        recipe_plans("mnist-usps", "lenet", ["rpt"], [0], changes=changes, note=note)[0] for changes, note in tried
    ]
    assert (first.settings.stream_weight, second.settings.stream_weight) == (0.1, 1.0)
    assert (second.settings.rank.weight, second.settings.rank.every) == (2.0, 7)
    assert first.train.steps == second.train.steps == 5
    assert each_setting([], ["a=1"], "as it is") == [(["a=1"], "as it is")]
