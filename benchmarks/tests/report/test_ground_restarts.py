"""Restarts on the proving ground: scores of other kinds, the guard's verdict before the score, seeds counted."""

from __future__ import annotations

import pytest

from bench_support.records import ground_record
from residapt_bench.proving_ground.grid import GroundRecord
from residapt_bench.proving_ground.library import DataError
from residapt_bench.report.ground_restarts import chosen_score, ground_restart_table, restart_groups

BAD = {"source_accuracy": (0.9, 0.4)}
FIGURES = (60.0, 70.0, 80.0, 90.0, 75.0)


def runs(pair: str, right: str, wrong: str, **more: object) -> list[GroundRecord]:
    """Five seeds; one score goes with the accuracy, the other against it."""
    return [
        ground_record(pair, "default", 50, figure, seed=seed, scores={right: (0, figure), wrong: (0, -figure)}, **more)
        for seed, figure in enumerate(FIGURES)
    ]


def test_a_score_counts_on_pairs_that_it_was_not_chosen_on() -> None:
    records = [
        *runs("series-drift", "bnm", "snd"),
        *runs("series-speed", "bnm", "snd"),
        *runs("svhn-mnist", "snd", "bnm"),
    ]
    rows = [line.strip("| ").split(" | ") for line in ground_restart_table(records, "bnm").splitlines()[2:5]]
    assert [row[0] for row in rows] == ["`series-drift`", "`series-speed`", "`svhn-mnist`"]
    # Digits would have series choose snd, which is wrong there; series have digits choose bnm, which is wrong there.
    assert [row[5:7] for row in rows] == [["snd", "60.0 (-100%)"]] * 2 + [["bnm", "60.0 (-100%)"]]
    assert [row[7] for row in rows] == ["90.0 (100%)", "90.0 (100%)", "60.0 (-100%)"]
    assert rows[0][3:5] == ["75.0 ± 11.2", "90.0"]


def test_what_the_guard_rejects_comes_last_and_counts_as_its_source_network() -> None:
    records = runs("series-drift", "bnm", "snd")
    records[3] = ground_record(
        "series-drift", "default", 50, 90, seed=3, scores={"bnm": (0, 90.0), "snd": (0, -90.0)}, votes=BAD
    )
    (found,) = restart_groups(records)
    assert found.figures == (60.0, 70.0, 80.0, 50.0, 75.0)
    assert found.picked("bnm") == 80.0
    assert chosen_score([found]) == "bnm"


def test_fewer_than_five_seeds_are_no_restarts() -> None:
    records = runs("series-drift", "bnm", "snd")
    with pytest.raises(DataError):
        ground_restart_table([*records[:4], records[0]], "bnm")
