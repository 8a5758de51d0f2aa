from __future__ import annotations

import math

from residapt_bench.digits.random_settings import SPACE, random_settings
from residapt_bench.experiment_file import ExperimentFile, RunSet


def parsed(line: str) -> dict[str, float]:
    return {name: float(value) for name, _, value in (part.partition("=") for part in line.split())}


def test_draws_follow_from_the_seed_and_more_begin_with_the_fewer() -> None:
    assert random_settings(3, 5) == random_settings(3, 9)[:5]
    assert len({*random_settings(3, 9), *random_settings(4, 9)}) == 18
    assert random_settings(3, 0) == []


def test_rates_and_weights_cover_their_ranges_evenly_by_order_of_magnitude() -> None:
    drawn = [parsed(line) for line in random_settings(0, 600)]
    assert all(set(each) == set(SPACE) for each in drawn)
    rates = [each["train.network.lr"] for each in drawn]
    assert min(rates) >= 1e-4
    assert max(rates) <= 3e-3
    below = sum(rate < math.sqrt(1e-4 * 3e-3) for rate in rates) / len(rates)
    assert abs(below - 0.5) < 0.1, "half of the draws lie below the geometric mean"
    assert {each["discrepancy.end"] for each in drawn} == {0.5, 0.75, 1.0}


def test_every_draw_is_a_valid_variant_that_two_methods_share() -> None:
    runs = RunSet(tasks=("svhn-mnist",), methods=("dann_flip", "rpt"), recipes=("plus",), seeds=(7,), random=12)
    plans = ExperimentFile(title="random", runs=(runs,)).plans()
    assert len(plans) == 24
    for one, other in zip(plans[::2], plans[1::2], strict=True):
        assert one.note == other.note
        assert one.settings == other.settings
        assert one.train == other.train
        assert one.train.network.lr == parsed(one.note)["train.network.lr"]
        assert one.settings.information.weight == parsed(one.note)["information.weight"]
