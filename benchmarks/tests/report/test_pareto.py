"""The front of accuracy against size, from records."""

from __future__ import annotations

import pytest

from bench_support.records import digit_record
from residapt.errors import DataError
from residapt_bench.record import Sizes
from residapt_bench.report.pareto import Point, front_of, front_shares, pareto_figure, pareto_table, points_of


def point(name: str, size: float, accuracy: float, task: str = "one") -> Point:
    return Point(task, name, "", size, accuracy, 0.0, 1)


def test_the_front_has_what_nothing_smaller_beats() -> None:
    points = [point("a", 10, 90), point("b", 5, 80), point("c", 7, 79), point("d", 20, 90), point("e", 100, 91)]
    assert [p.name for p in front_of(points)] == ["b", "a", "e"]
    assert front_of([point("a", 5, 80), point("b", 5, 82)])[0].name == "b"
    others = [point("a", 1, 50, "two"), point("e", 2, 40, "two")]
    assert front_shares([*points, *others]) == {"a": 1.0, "b": 1.0, "c": 0.0, "d": 0.0, "e": 0.5}


def test_points_are_means_over_seeds() -> None:
    def record(method: str, accuracy: float, size: int, seed: int) -> object:
        sizes = Sizes(after={"transform": size, "deployed": 1000})
        made = digit_record(method, accuracy).model_copy(update={"parameters": sizes})
        return made.model_copy(update={"plan": made.plan.model_copy(update={"seed": seed})})

    records = [record("rpt", 80, 100, 0), record("rpt", 84, 200, 1), record("lora", 90, 500, 0)]
    found = {p.name: p for p in points_of(records)}  # type: ignore[arg-type]
    assert (found["rpt"].size, found["rpt"].accuracy, found["rpt"].seeds) == (15.0, 82.0, 2)
    assert (found["lora"].size, found["lora"].spread) == (50.0, 0.0)
    assert pareto_table(records).count("| yes |") == 2  # type: ignore[arg-type]
    assert "Pareto front" in pareto_figure(records)  # type: ignore[arg-type]
    with pytest.raises(DataError):
        points_of([])
