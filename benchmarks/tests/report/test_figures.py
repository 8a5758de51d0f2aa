from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from bench_support.records import digit_record
from residapt.errors import DataError
from residapt_bench.record import Record
from residapt_bench.report.figures import curves_figure, sweep_figure

SVG = "{http://www.w3.org/2000/svg}"


def record(method: str, value: float, *, note: str = "", stream_weight: float = 1.0, **more: Any) -> Record:
    return digit_record(
        method,
        value,
        note=note,
        settings={"stream_weight": stream_weight, "rank": {"weight": 1.0}},
        curve=({"step": 1000, "target_test": value - 5}, {"step": 2000, "target_test": value}),
        **more,
    )


def lines(picture: str) -> list[str | None]:
    return [line.get("stroke") for line in ElementTree.fromstring(picture).iter(f"{SVG}polyline")]


def test_every_run_has_its_curve_and_every_recipe_its_colour() -> None:
    records = [record("rpt", 80), record("rpt", 82), record("rpt", 95, recipe="plus"), record("dann_flip", 78)]
    records += [record("rpt", 20, note="sweep"), record("rpt", 30, recipe="plus", note="without prior")]
    found = lines(curves_figure(records, ["dann_flip", "rpt", "adda"]))
    assert len(found) == 4
    assert found[0] == found[1] == found[2] != found[3]
    with pytest.raises(DataError):
        curves_figure(records, ["adda"])


def test_a_curve_begins_at_the_source_network_of_its_recipe() -> None:
    records = [record("rpt", 80), record("rpt", 95, recipe="plus"), record("source_only", 60)]
    root = ElementTree.fromstring(curves_figure(records, ["rpt"]))
    paths = [line.get("points", "").split() for line in root.iter(f"{SVG}polyline")]
    assert [len(points) for points in paths] == [3, 2]  # the recipe plus has no record of its source network
    heights = [float(point.split(",")[1]) for point in paths[0]]
    assert heights == sorted(heights, reverse=True)  # 60, 75, 80: upwards on the page


def test_sweeps_are_in_order_beside_the_line_of_dann() -> None:
    records = [
        record("rpt", 80 + w, note="sweep stream_weight", swept="stream_weight", stream_weight=w)
        for w in (10.0, 0.1, 0.0)
    ]
    records.append(record("rpt", 81))  # λs = 1 is the plain run
    records += [record("dann_flip", 79), record("dann_flip", 81), record("dann_flip", 99, recipe="plus")]
    records.append(record("dann_flip", 20, seed=1))  # no run of the sweep has this seed
    picture = sweep_figure(records)
    root = ElementTree.fromstring(picture)
    (path,) = [line.get("points", "") for line in root.iter(f"{SVG}polyline")]
    points = [tuple(map(float, point.split(","))) for point in path.split()]
    assert len(points) == 3  # a weight of 0 has no place on a logarithmic axis
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    (level,) = [float(line.get("y1", "")) for line in root.iter(f"{SVG}line") if line.get("stroke-dasharray")]
    assert level >= points[0][1]  # 80.1 lies just above DANN's 80
    with pytest.raises(DataError):
        sweep_figure([])
