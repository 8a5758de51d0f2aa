from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from bench_support.records import digit_record, drone_record
from residapt.errors import DataError
from residapt_bench.drones.figure import label_figure
from residapt_bench.drones.tables import (
    all_tables,
    difference_table,
    label_rows,
    label_table,
    method_table,
    rank_table,
    tuning_table,
)
from residapt_bench.record import Record
from residapt_bench.report.markdown import fill_in


def record(method: str, ap: float, **more: Any) -> Record:
    before, after = ({"conv1": (32, 32)}, {"conv1": (int(10 * ap), 4)}) if method == "rpt" else ({}, {})
    return drone_record(method, ap, before=before, after=after, seconds=10.0, **more)


RECORDS = [
    record("source_only", 0.2, labels=0),
    record("rpt", 0.5),
    record("rpt", 0.7),
    record("rpt", 0.9, note="a sweep"),
    record("rpt", 0.3, labels=10),
    record("fine_tune", 0.4),
    record("rpt", 0.8, part="validation", note="try 1"),
]


def test_the_table_has_means_and_the_papers_numbers() -> None:
    lines = method_table(RECORDS).splitlines()
    assert "| RPT | 0.743 [0.006] | 0.600 | 0.141 | 2 | 0.300 | 0.071 | 1,050 | 10 |" in lines
    assert "| source only | 0.377 | 0.200 |  | 1 | 0.100 |  | 1,050 | 10 |" in lines
    assert "| ADDA | 0.731 [0.005] |  |  |  |  |  |  |  |" in lines
    assert "| pooled real + synthetic | 0.569 (earlier paper) |  |  |  |  |  |  |  |" in lines


def test_differences_are_paired_by_seed() -> None:
    streams = [record("rpt", 0.5), record("adda", 0.4), record("rpt", 0.7, seed=1), record("adda", 0.5, seed=1)]
    # Differences 0.1 and 0.2: 0.15 ± 12.7 x 0.05.
    assert difference_table(streams).splitlines()[2:] == ["| ADDA | +0.150 | -0.485 to +0.785 | 2 |"]


def test_fine_tuning_on_no_labels_is_the_source_network() -> None:
    assert label_rows(RECORDS) == {"fine_tune": {0: [0.2], 200: [0.4]}, "rpt": {10: [0.3], 200: [0.5, 0.7]}}
    assert "| RPT | 10 | 0.300 |  | 1 |" in label_table(RECORDS).splitlines()


def test_ranks_are_means_over_the_main_runs() -> None:
    assert rank_table(RECORDS).splitlines()[2:] == ["| conv1 | 32 | 6.0 | 32 | 4.0 |"]
    assert len(rank_table([]).splitlines()) == 2


def test_tries_are_listed() -> None:
    assert tuning_table(RECORDS).splitlines()[2:] == ["| RPT | try 1 | 0.800 |"]


def test_the_figure_places_its_points() -> None:
    picture = label_figure(RECORDS)
    root = ElementTree.fromstring(picture)
    circles = [
        (float(c.get("cx", "")), float(c.get("cy", ""))) for c in root.iter("{http://www.w3.org/2000/svg}circle")
    ]
    assert len(circles) == 4
    (x0, y0), (x200, y200), (x10, y10), (last, highest) = circles
    assert x0 < x10 < x200 == last
    assert highest < y200 < y10 < y0
    assert set(re.findall(r">(\d+)</text>", picture)) == {"0", "10", "200"}


def test_records_of_another_kind_are_refused() -> None:
    with pytest.raises(DataError):
        label_figure([])
    with pytest.raises(DataError, match="digits"):
        method_table([digit_record()])


def test_a_page_gets_its_tables_again_and_again() -> None:
    tables = all_tables(RECORDS)
    page = "top\n" + "".join(f"<!-- {name} -->\nold\n<!-- end {name} -->\nbetween\n" for name in tables)
    once = fill_in(page, tables, "page.md")
    assert "old" not in once
    assert once.count("between") == len(tables)
    assert all(table in once for table in tables.values())
    assert fill_in(once, tables, "page.md") == once
    with pytest.raises(DataError, match=r"'page.md'.*'methods'"):
        fill_in("nothing", tables, "page.md")
