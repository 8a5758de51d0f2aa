from __future__ import annotations

import pytest

from bench_support.records import office_record
from residapt.errors import DataError
from residapt_bench.report.score_table import SCORES, score_table


def test_scores_after_adaptation_stand_beside_the_accuracy() -> None:
    measured = {name: (0.1, 0.2 + number / 10) for number, name in enumerate(SCORES)}
    more = {"seed": 3, "note": "weight 1", "train": {"steps": 500}}
    records = [office_record("a-w", "rpt", 60.14, label_free=measured, **more), office_record("a-w", "rpt", 1.0)]
    lines = score_table(records).splitlines()
    assert lines[2:] == ["| a-w | rpt | 3 | 500 | weight 1 | 0.200 | 0.300 | 0.400 | 0.500 | 60.1 |"]
    with pytest.raises(DataError):
        score_table(records[1:])
