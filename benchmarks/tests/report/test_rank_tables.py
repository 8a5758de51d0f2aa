from __future__ import annotations

import pytest

from bench_support.records import digit_record
from residapt.errors import DataError
from residapt_bench.record import Record, Sizes
from residapt_bench.report.rank_tables import rank_tables


def record(after: tuple[int, int], *, note: str = "") -> Record:
    sizes = Sizes(before={"transform": 1000, "network": 2000}, after={"transform": 10 * sum(after)})
    before = {"conv1": (20, 25), "full3": (32, 32)}
    return digit_record(note=note, before=before, after={"conv1": after, "full3": (0, 0)}, parameters=sizes)


def test_layers_sums_and_parameters_are_means_of_the_runs() -> None:
    text = rank_tables([record((4, 6)), record((6, 8)), record((1, 1), note="group weights")])
    first, second = text.split("**svhn-mnist, lenet, common, group weights, 2,000 steps**")
    assert "mean of 2 run(s)" in first
    assert "| conv1 | 20 | 5.0 | 25 | 7.0 |" in first
    assert "| sum of l + r | 109 | 12.0 |" in first
    assert "1,000 → 120" in first
    assert "| conv1 | 20 | 1.0 | 25 | 1.0 |" in second


def test_no_ranks_are_said() -> None:
    with pytest.raises(DataError, match="'rpt'"):
        rank_tables([])
