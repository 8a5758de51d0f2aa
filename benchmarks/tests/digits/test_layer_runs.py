from __future__ import annotations

from pathlib import Path

import pytest

from bench_support.small_digits import small_digits
from residapt.errors import DataError
from residapt_bench.digits.grid import run_grid
from residapt_bench.digits.layer_runs import layer_plans, layer_table
from residapt_bench.resumable import read_records


def test_every_combination_is_a_plan_of_its_own() -> None:
    plans = layer_plans("svhn-mnist", "lenet", seed=3, steps=1000)
    assert len({plan.key() for plan in plans}) == 16
    assert {plan.settings.two_stream.layers for plan in plans} >= {(), ("conv1",), ("conv1", "conv2", "full3", "full4")}
    assert {(plan.method, plan.seed, plan.train.steps) for plan in plans} == {("two_stream", 3, 1000)}


def test_the_lowest_mmd_is_marked_whatever_the_accuracy(tmp_path: Path) -> None:
    plans = [
        plan.model_copy(update={"source": plan.source.model_copy(update={"steps": 1})})
        for plan in layer_plans("mnist-usps", "lenet", seed=0, steps=2, changes=["train.batch_size=4"])[:2]
    ]
    out = tmp_path / "layers.jsonl"
    run_grid(plans, out=out, root=small_digits(tmp_path), cache=tmp_path / "cache")
    records = read_records([out])
    assert len(records) == 2
    best, other = sorted(records, key=lambda record: record["stream_mmd"])
    best["accuracy"]["target_test"], other["accuracy"]["target_test"] = 1.0, 99.0
    first, second = layer_table(records).splitlines()[2:]
    assert first.startswith("| **")
    assert first.endswith("| 1.0 |")
    assert not second.startswith("| **")


def test_other_records_are_refused() -> None:
    with pytest.raises(DataError, match="no runs of residapt bench layers"):
        layer_table([{"plan": {"note": ""}}])
