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
    series = [*runs("series-drift", "bnm", "snd"), *runs("series-speed", "bnm", "snd")]
    table = ground_restart_table([*series, *runs("svhn-mnist", "snd", "bnm")]).splitlines()
    rows = [line.split("|")[1:-1] for line in table[2:5]]
    assert [row[0].strip() for row in rows] == ["`series-drift`", "`series-speed`", "`svhn-mnist`"]
    # Digits would have series choose snd, which is wrong there; series have digits choose bnm, which is wrong there.
    assert [row[7].strip() for row in rows] == ["snd", "snd", "bnm"]
    assert [row[6].strip() for row in rows] == ["60.0 (-100%)"] * 3
    assert [cell.strip() for cell in rows[0][3:6]] == ["75.0 ± 11.2", "90.0", ""]
    assert "by agreement 0 of 0, by the score 0 of 3" in table[-1]


def test_agreement_is_that_of_the_runs_that_the_guard_lets_pass() -> None:
    texts = ("0000", "0130", "0121", "0123", "0121")
    records = [
        one.model_copy(update={"predicted": text})
        for one, text in zip(runs("series-drift", "bnm", "snd"), texts, strict=True)
    ]
    assert [one.agreed for one in restart_groups(records)] == [80.0]  # the first of the two that are alike
    assert "80.0 (33%)" in ground_restart_table(records)
    bad = {**records[2].measurements, **BAD}
    records[2] = records[2].model_copy(update={"measurements": bad})
    assert [one.agreed for one in restart_groups(records)] == [75.0]


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
        ground_restart_table([*records[:4], records[0]])
