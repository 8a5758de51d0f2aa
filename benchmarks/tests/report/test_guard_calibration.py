"""Thresholds found on some runs; rates of runs of other kinds of shift."""

from __future__ import annotations

import pytest

from bench_support.records import ground_record
from residapt.evaluate.guard import GuardConfig
from residapt_bench.proving_ground.grid import GroundRecord
from residapt_bench.report import guard_calibration
from residapt_bench.report.guard_calibration import CANDIDATES, calibrated, cost, left_out_outcomes


def run(pair: str, change: float, source_fall: float, rise: float = 0.0) -> GroundRecord:
    votes = {"source_accuracy": (0.9, 0.9 - source_fall), "class_ami": (0.5, 0.5 + rise)}
    return ground_record(pair, "paper", 50, 50 + change, votes=votes)


def test_the_shares_of_all_mistakes_are_the_cost() -> None:
    runs = [run("series-drift", -20, 0.0), run("series-drift", -20, 0.5), run("svhn-mnist", 20, 0.5)]
    assert cost(runs, GuardConfig()) == pytest.approx(0.5 + 1.0 + 0.1)
    assert cost([run("series-drift", 20, 0.0, rise=0.2)], GuardConfig()) == 0.0


def test_a_threshold_is_found_between_losses_and_gains() -> None:
    runs = [run("series-drift", -20, 0.17), run("series-speed", 20, 0.12, rise=0.2)]
    found = calibrated(runs)
    assert found.source_drop == 0.15
    assert cost(runs, found) == 0.0
    # What nothing depends on stays in the middle of what is tried.
    assert found.lost_mass == CANDIDATES["lost_mass"][2]


def test_a_kind_is_judged_by_thresholds_of_other_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def spy(records: list[GroundRecord]) -> GuardConfig:
        seen.append({record.run.pair for record in records})
        return GuardConfig(source_drop=0.1 if "series-drift" in seen[-1] else 0.3)

    monkeypatch.setattr(guard_calibration, "calibrated", spy)
    runs = [run("series-drift", -20, 0.2), run("svhn-mnist", -20, 0.2), run("svhn-mnist-skewed", -20, 0.2)]
    outcomes = left_out_outcomes(runs)
    # The skewed pair has the shift of the plain one, so neither is judged by thresholds of the other.
    assert seen == [{"svhn-mnist", "svhn-mnist-skewed"}, {"series-drift"}, {"series-drift"}]
    assert [one.helped for one in outcomes] == [None, False, False]
    assert [one.group for one in outcomes] == ["series-drift", "svhn-mnist", "svhn-mnist"]
