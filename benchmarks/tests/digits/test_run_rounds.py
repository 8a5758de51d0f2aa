"""A run of a grid that trains several times: the record has all rounds, and scores and curve of the last."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench_support.small_digits import small_digits, small_plans
from residapt.methods import MethodConfig
from residapt.methods.config import PriorConfig, SearchConfig
from residapt.train import TrainConfig
from residapt_bench.experiment import execute
from residapt_bench.plan import Plan

PRIOR = {"kind": "estimated", "warmup": 0, "smoothing": 0}


@pytest.fixture(autouse=True)
def _every_estimate_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few images say little about class frequencies; here they are believed all the same."""
    for name, value in {"every": 1, "cautious": False, "max_condition": 1e12, "min_ess": 0.0}.items():
        monkeypatch.setattr(PriorConfig, name, value)
    monkeypatch.setattr(SearchConfig, "settled", 1e-9)


def plan_with(rounds: int) -> Plan:
    settings = MethodConfig.parse({"prior": {**PRIOR, "search": {"rounds": rounds}}})
    train = TrainConfig(steps=6, batch_size=40, evaluate_every=3, log_every=3)
    return small_plans(1, methods=("rpt",))[0].model_copy(update={"settings": settings, "train": train})


def test_the_record_of_a_search_has_all_rounds_and_the_curve_of_the_last(tmp_path: Path) -> None:
    root = small_digits(tmp_path)
    record = execute(plan_with(2), root=root, cache=tmp_path / "cache")
    assert [one["steps"] for one in record.rounds] == [6, 3, 3, 6]
    assert record.prior["target"] == record.rounds[-1]["target"]
    assert [point["step"] for point in record.curve] == [3, 6]
    once = execute(plan_with(0), root=root, cache=tmp_path / "cache")
    assert once.rounds == ()
    assert once.prior["target"] == record.rounds[0]["target"], "the first round is the run without a search"
