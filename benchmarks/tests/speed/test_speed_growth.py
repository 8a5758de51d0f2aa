from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from residapt.errors import ConfigError, DataError
from residapt.models import LeNet
from residapt_bench.speed import growth as speed_growth
from residapt_bench.speed.cases import CASES, rpt_method
from residapt_bench.speed.growth import (
    AXES,
    GrowthPoint,
    growth_case,
    growth_figure,
    growth_table,
    read_growth,
    run_growth,
)

POINT = GrowthPoint(
    axis="rank",
    value=8,
    pixels=224,
    seconds={"rpt": 1.1, "dann": 1.0},
    ratio=1.1,
    processor_ratio=1.05,
    memory={"rpt": 120, "dann": 100},
    rounds=3,
    threads=1,
)


def point_with(**changes: Any) -> GrowthPoint:
    return POINT.model_copy(update=changes)


def test_one_thing_grows_at_a_time() -> None:
    rank, batch, depth = (growth_case(axis, value, 64) for axis, value in (("rank", 128), ("batch", 2), ("depth", 18)))
    assert (rank.name, rank.size, rank.rank) == ("resnet50", 8, 128)
    assert (batch.name, batch.size, batch.rank) == ("resnet50", 2, 32)
    assert (depth.name, depth.size, depth.rank) == ("resnet18", 8, 32)
    assert {len(AXES[axis]) >= 3 for axis in AXES} == {True}
    assert (min(AXES["rank"]), max(AXES["rank"])) == (8, 128)


def test_the_rank_of_a_case_is_the_rank_of_its_transforms() -> None:
    assert set(rpt_method(replace(CASES["lenet"], rank=5)).streams.ranks().values()) == {(5, 5)}


def test_points_are_appended_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed_growth, "measure_growth", lambda axis, value, **_: point_with(axis=axis, value=value))
    out = tmp_path / "results" / "growth.jsonl"
    points = run_growth(["rank", "depth"], pixels=64, rounds=1, out=out)
    assert [GrowthPoint.model_validate_json(line) for line in out.read_text().splitlines()] == points
    assert [point.value for point in points] == [*AXES["rank"], *AXES["depth"]]


def test_an_unknown_axis_is_named_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'width'.*rank, batch, depth"):
        run_growth(["rank", "width"], pixels=64, rounds=1, out=tmp_path / "g.jsonl")
    assert not (tmp_path / "g.jsonl").exists()


def test_a_real_point(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = replace(CASES["lenet"], build=lambda: LeNet(image_size=16), shape=(1, 16, 16), size=2)
    monkeypatch.setattr(speed_growth, "growth_case", lambda axis, value, pixels: replace(tiny, rank=value))
    point = speed_growth.measure_growth("rank", 4, pixels=16, rounds=3, memory=False)
    assert point.ratio == pytest.approx(point.seconds["rpt"] / point.seconds["dann"])
    assert point.memory_ratio is None


def test_table_and_figure_show_ratios_in_order_of_the_axis(tmp_path: Path) -> None:
    points = [point_with(value=value, ratio=1 + value / 100) for value in (64, 8)]
    console = Console(width=120, record=True)
    console.print(growth_table(points))
    assert "1.640" in console.export_text()
    picture = growth_figure(points)
    assert "rank, l = r" in picture
    assert "layers of the ResNet" not in picture
    assert picture.index(">8<") < picture.index(">64<")


def test_the_figure_comes_from_records(tmp_path: Path) -> None:
    file = tmp_path / "growth.jsonl"
    points = [point_with(ratio=ratio) for ratio in (9.0, 1.1)]  # measured twice: the last counts
    file.write_text("".join(point.model_dump_json() + "\n" for point in points))
    assert read_growth(file) == points[1:]
    with pytest.raises(DataError):
        growth_figure([])
    file.write_text('{"axis": "rank"}\n')
    with pytest.raises(DataError, match=r"growth\.jsonl"):
        read_growth(file)
