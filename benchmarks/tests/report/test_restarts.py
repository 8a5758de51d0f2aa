"""The best of several restarts: against every set written out."""

from __future__ import annotations

import itertools
import statistics

import numpy as np
import pytest

from bench_support.records import digit_record
from residapt.errors import DataError
from residapt_bench.digits.network_choice import Candidate
from residapt_bench.report.restarts import best_by_agreement, best_of, restart_table

INFOMAX = Candidate("infomax", 1)


@pytest.mark.parametrize(("count", "size"), [(5, 5), (7, 3), (10, 5), (6, 1)])
def test_best_of_is_the_mean_over_all_sets(count: int, size: int) -> None:
    generator = np.random.default_rng(count)
    scores = list(generator.integers(0, 4, count).astype(float))  # with equal ones
    accuracies = list(generator.uniform(50, 90, count))
    picks = [
        accuracies[max(chosen, key=lambda run: (scores[run], -run))]
        for chosen in itertools.combinations(range(count), size)
    ]
    assert best_of(scores, accuracies, size) == pytest.approx(statistics.fmean(picks))


def test_fewer_runs_than_asked_are_an_error() -> None:
    with pytest.raises(DataError):
        best_of([1.0, 2.0], [3.0, 4.0], 3)


def test_the_table_has_methods_with_enough_seeds_only() -> None:
    def run(method: str, seed: int, score: float, accuracy: float, **more: str) -> object:
        return digit_record(method, accuracy, seed=seed, label_free={"infomax": (0.0, score)}, **more)

    records = [run("rpt", seed, -seed, 70.0 + seed) for seed in range(5)]
    records += [run("dann", seed, 1.0, 60.0) for seed in range(4)]
    records += [run("adda", seed, 1.0, 60.0, varied="order") for seed in range(5)]
    table = restart_table(records, INFOMAX)  # type: ignore[arg-type]
    (row,) = table.splitlines()[2:]
    assert "| rpt |" in row
    assert "| 72.0 ± 1.6 | 70.0 |  | 74.0 |" in row


def test_the_run_that_others_agree_with_is_picked_of_every_set() -> None:
    predicted = ["0123", "0123", "0120", "0003", "3210", "0124"]
    accuracies = [80.0, 82.0, 75.0, 60.0, 20.0, 70.0]
    picks = []
    for chosen in itertools.combinations(range(6), 3):
        texts = [predicted[run] for run in chosen]
        agreed = [sum(a == b for other in texts for a, b in zip(one, other, strict=True)) for one in texts]
        picks.append(accuracies[chosen[agreed.index(max(agreed))]])
    assert best_by_agreement(predicted, accuracies, 3) == pytest.approx(statistics.fmean(picks))
    assert best_by_agreement(["0123", "012", "0123"], [1.0, 2.0, 3.0], 3) is None
    assert best_by_agreement(["", "", ""], [1.0, 2.0, 3.0], 3) is None
