from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from bench_support.records import digit_record
from residapt.errors import DataError
from residapt_bench.plan import SourceTraining
from residapt_bench.record import Record
from residapt_bench.report.paired import paired_difference


def record(method: str, seed: int, accuracy: float, **more: Any) -> Record:
    return digit_record(method, accuracy, seed=seed, **more)


def test_mean_and_interval_are_those_of_the_paired_t_test():
    generator = np.random.default_rng(0)
    a, b = generator.normal(80, 3, 7), generator.normal(78, 3, 7)
    records = [record("rpt", i, x) for i, x in enumerate(a)] + [record("dann_flip", i, x) for i, x in enumerate(b)]
    found = paired_difference(records, "rpt", "dann_flip")
    expected = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert found.interval() == pytest.approx((expected.low, expected.high))
    assert found.mean == pytest.approx(np.mean(a - b))


def test_only_seeds_of_both_and_only_the_asked_runs_count():
    records = [
        record("rpt", 0, 80.0),
        record("rpt", 1, 90.0),
        record("dann_flip", 0, 79.0),
        record("dann_flip", 1, 10.0, note="sweep"),
        record("dann_flip", 1, 10.0, arch="dtn"),
        record("dann_flip", 1, 10.0, varied="order"),
        record("dann_flip", 0, 10.0, recipe="own"),
        record("dann_flip", 0, 10.0, recipe="plus"),
    ]
    found = paired_difference(records, "rpt", "dann_flip", arch="lenet")
    assert found.differences == {0: 1.0}
    assert found.interval() is None
    assert paired_difference(records, "rpt", "dann_flip", arch="lenet", recipe_of_second="plus").differences == {
        0: 70.0
    }


def test_a_method_can_bring_the_note_of_its_runs():
    records = [
        record("rpt", 0, 80.0),
        record("rpt", 0, 85.0, note="by reversal"),
        record("dann", 0, 78.0),
        record("dann", 0, 70.0, note="by reversal"),
    ]
    assert paired_difference(records, "rpt:by reversal", "dann").differences == {0: 7.0}
    assert paired_difference(records, "rpt:by reversal", "rpt").differences == {0: 5.0}
    assert paired_difference(records, "rpt", "dann", note="by reversal").differences == {0: 15.0}
    assert paired_difference(records, "rpt:", "dann", note="by reversal").differences == {0: 10.0}


def test_runs_of_different_length_are_not_paired():
    records = [
        record("rpt", 0, 80.0),
        record("dann_flip", 0, 70.0, steps=4000),
        record("source_only", 0, 60.0, steps=9),
    ]
    with pytest.raises(DataError):
        paired_difference(records, "rpt", "dann_flip")
    assert paired_difference(records, "rpt", "source_only").differences == {0: 20.0}
    records += [record("rpt", 0, 85.0, steps=4000), record("dann_flip", 0, 79.0)]
    with pytest.raises(DataError, match="2000, 4000"):
        paired_difference(records, "rpt", "dann_flip")
    assert paired_difference(records, "rpt", "dann_flip", steps=4000).differences == {0: 15.0}


def test_runs_of_different_tasks_are_not_paired():
    records = [record(method, 0, score) for method, score in (("rpt", 80.0), ("dann_flip", 79.0))]
    records += [record(method, 0, score, task="mnist-usps") for method, score in (("rpt", 95.0), ("dann_flip", 90.0))]
    with pytest.raises(DataError, match=r"mnist-usps, svhn-mnist.*--task"):
        paired_difference(records, "rpt", "dann_flip")
    assert paired_difference(records, "rpt", "dann_flip", task="mnist-usps").differences == {0: 5.0}


def test_nothing_in_common_is_said():
    with pytest.raises(DataError, match="'adda'"):
        paired_difference([record("rpt", 0, 80.0)], "rpt", "adda")


def test_runs_can_be_compared_on_their_way():
    points = {"rpt": (90.0, 95.0), "dann_flip": (85.0, 94.0)}
    records = [
        record(method, seed, ends[1], curve=({"step": 1000, "target_test": ends[0] + seed * (method == "rpt")},))
        for method, ends in points.items()
        for seed in (0, 2)
    ]
    assert paired_difference(records, "rpt", "dann_flip").differences == {0: 1.0, 2: 1.0}
    assert paired_difference(records, "rpt", "dann_flip", at=1000).differences == {0: 5.0, 2: 7.0}
    with pytest.raises(DataError):
        paired_difference(records, "rpt", "dann_flip", at=500)


def test_runs_from_other_weights_of_one_seed_are_no_pair():
    records = [
        record("rpt", 0, 80.0, source_sha256="a", varied="order"),
        record("rpt", 1, 81.0, source_sha256="a", varied="order"),
        record("dann", 0, 70.0, source_sha256="a", varied="order"),
        record("dann", 1, 72.0, source_sha256="b", varied="order"),
    ]
    assert paired_difference(records, "rpt", "dann", varied="order").differences == {0: 10.0}
    other_training = [
        record("rpt", 1, 81.0, source_sha256="a"),
        record("dann", 1, 72.0, source_sha256="b", source=SourceTraining(steps=0)),
    ]
    assert paired_difference(other_training, "rpt", "dann").differences == {1: 9.0}
