from __future__ import annotations

import pytest

from bench_support.records import digit_record
from residapt.errors import DataError
from residapt_bench.report.layer_table import layer_table


def test_the_lowest_mmd_is_marked_whatever_the_accuracy() -> None:
    records = [
        digit_record(
            "two_stream",
            accuracy,
            swept="two_stream.layers",
            stream_mmd=mmd,
            settings={"two_stream": {"layers": layers}},
        )
        for layers, mmd, accuracy in ((["conv1"], 0.2, 99.0), ([], 0.1, 1.0))
    ]
    assert layer_table(records).splitlines()[2:] == [
        "| **none** | 0.10000 | 1.0 |",
        "| conv1 | 0.20000 | 99.0 |",
    ]


def test_other_records_are_refused() -> None:
    with pytest.raises(DataError):
        layer_table([digit_record("two_stream")])
