from __future__ import annotations

import statistics
from typing import Any

import pytest

from bench_support.records import digit_record
from residapt_bench.record import Record
from residapt_bench.report.table import HEADINGS, markdown_table, rows_of


def record(method: str, value: float, **more: Any) -> Record:
    return digit_record(method, value, **more)


def cells(rows: list, method: str) -> dict[str, str]:
    row = next(row for row in rows if row.group.method == method and row.group.arch == "lenet")
    return dict(zip(HEADINGS, row.cells(), strict=True))


def test_mean_spread_and_difference_come_from_the_records():
    values = [84.0, 86.0, 85.5]
    found = cells(rows_of([record("rpt", value) for value in values]), "rpt")
    assert float(found["ours"]) == pytest.approx(statistics.fmean(values), abs=0.05)
    assert float(found["std"]) == pytest.approx(statistics.stdev(values), abs=0.005)
    assert found["n"] == "3"
    assert found["paper"] == "84.7"
    assert float(found["diff"]) == pytest.approx(statistics.fmean(values) - 84.7, abs=0.051)


def test_a_published_method_without_runs_has_empty_cells():
    found = cells(rows_of([record("rpt", 84.0)]), "adda")
    assert found["paper"] == "76.0"
    assert found["ours"] == found["std"] == found["n"] == found["diff"] == ""


def test_what_goes_beyond_the_paper_has_no_published_number():
    rows = [
        row
        for row in rows_of([record("rpt", 97.0, recipe="plus")])
        if (row.group.arch, row.group.method) == ("lenet", "rpt")
    ]
    found = {row.group.recipe: dict(zip(HEADINGS, row.cells(), strict=True)) for row in rows}
    assert (found["plus"]["paper"], found["plus"]["diff"], found["plus"]["ours"]) == ("", "", "97.0")
    assert (found[""]["paper"], found[""]["ours"]) == ("84.7", "")


def test_one_run_has_no_spread():
    assert cells(rows_of([record("rpt", 84.0)]), "rpt")["std"] == ""


def test_runs_with_another_note_are_other_rows():
    rows = rows_of([record("rpt", 84.0), record("rpt", 50.0, note="lambda_s = 100")])
    assert sorted(len(row.values) for row in rows if row.group.method == "rpt" and row.group.arch == "lenet") == [1, 1]


def test_runs_of_another_length_are_other_rows_but_the_warm_start_is_one():
    other = {"train": {"steps": 4000}}
    rows = rows_of([record(method, 80.0, **plan) for method in ("rpt", "source_only") for plan in ({}, other)])
    lengths = [row.cells()[HEADINGS.index("steps")] for row in rows if row.group.method == "rpt"]
    assert lengths[:2] == ["2,000", "4,000"]
    assert [len(row.values) for row in rows if row.group.method == "source_only" and row.group.arch == "lenet"] == [2]


def test_markdown_has_a_line_for_every_row():
    rows = rows_of([record("rpt", 84.0)])
    assert len(markdown_table(rows).splitlines()) == len(rows) + 2
