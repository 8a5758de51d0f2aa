from __future__ import annotations

import pytest

from residapt.errors import DataError
from residapt_bench.report.score_table import SCORES, score_table


def test_scores_after_adaptation_stand_beside_the_accuracy() -> None:
    plan = {"task": "a-w", "method": "rpt", "seed": 3, "note": "weight 1", "train": {"steps": 500}}
    measured = {name: [0.1, 0.2 + number / 10] for number, name in enumerate(SCORES)}
    records = [
        {"plan": plan, "label_free": measured, "accuracy": {"target": 60.14}},
        {"plan": plan, "accuracy": {"target": 1.0}},
    ]
    lines = score_table(records).splitlines()
    assert lines[2:] == ["| a-w | rpt | 3 | 500 | weight 1 | 0.200 | 0.300 | 0.400 | 0.500 | 60.1 |"]
    with pytest.raises(DataError, match="no label-free measurements"):
        score_table(records[1:])
