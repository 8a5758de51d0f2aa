from __future__ import annotations

import statistics

import pytest

from residapt.bench.table import HEADINGS, markdown_table, rows_of
from residapt.errors import DataError


def record(method: str, value: float, **plan: object) -> dict[str, object]:
    base = {"task": "svhn-mnist", "arch": "lenet", "method": method, "recipe": "common", "varied": "all", "note": ""}
    return {
        "plan": {**base, **plan},
        "accuracy": {"target_test": value, "target_train": value - 1, "source_test": 90.0},
    }


def cells(rows: list, method: str) -> dict[str, str]:
    row = next(row for row in rows if row.method == method and row.arch == "lenet")
    return dict(zip(HEADINGS, row.cells(), strict=True))


def test_mean_spread_and_difference_come_from_the_records():
    values = [84.0, 86.0, 85.5]
    found = cells(rows_of([record("rpt", value) for value in values]), "rpt")
    assert float(found["ours"]) == pytest.approx(statistics.fmean(values), abs=0.05)
    assert float(found["std"]) == pytest.approx(statistics.stdev(values), abs=0.005)
    assert found["n"] == "3"
    assert found["published"] == "84.7"
    assert float(found["difference"]) == pytest.approx(statistics.fmean(values) - 84.7, abs=0.051)


def test_a_published_method_without_runs_has_empty_cells():
    found = cells(rows_of([record("rpt", 84.0)]), "adda")
    assert found["published"] == "76.0"
    assert found["ours"] == found["std"] == found["n"] == found["difference"] == ""


def test_one_run_has_no_spread():
    assert cells(rows_of([record("rpt", 84.0)]), "rpt")["std"] == ""


def test_runs_with_another_note_are_other_rows():
    rows = rows_of([record("rpt", 84.0), record("rpt", 50.0, note="lambda_s = 100")])
    assert sorted(len(row.values) for row in rows if row.method == "rpt" and row.arch == "lenet") == [1, 1]


def test_markdown_has_a_line_for_every_row():
    rows = rows_of([record("rpt", 84.0)])
    assert len(markdown_table(rows).splitlines()) == len(rows) + 2


def test_a_line_that_is_no_record_of_a_grid_is_named():
    with pytest.raises(DataError, match="'abc'"):
        rows_of([{"key": "abc", "speed": 1}])
