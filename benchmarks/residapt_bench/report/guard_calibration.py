"""The guard's thresholds, found on some runs and tried on others: error rates by leave-one-kind-out."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from residapt.evaluate.guard import GuardConfig
from residapt_bench.proving_ground.grid import GroundRecord
from residapt_bench.proving_ground.grid_table import kinds_of
from residapt_bench.report.guard_check import CLEAR, LARGE, Outcome, ground_outcomes

CANDIDATES: Mapping[str, tuple[float, ...]] = {
    "source_drop": (0.1, 0.15, 0.2, 0.25, 0.3),
    "lost_mass": (0.15, 0.2, 0.25, 0.3, 0.35),
    "renamed_classes": (0.5, 0.75, 1.0, 1.25, 1.5),
    "own_loss": (0.0, 0.01, 0.02, 0.03, 0.05),
    "own_gain": (0.02, 0.03, 0.05, 0.07, 0.1),
    "anchored_loss": (0.02, 0.03, 0.05, 0.07, 0.1),
    "anchored_large": (0.1, 0.15, 0.2, 0.25, 0.3),
    "overturned": (0.05, 0.07, 0.09, 0.11, 0.15),
    "information_loss": (0.01, 0.02, 0.03, 0.05),
    "collapsed": (0.3, 0.4, 0.5, 0.6, 0.7),
}
"""Values that are tried of each threshold."""
ROUNDS = 3
"""Times that all thresholds are gone through."""


def cost(records: Sequence[GroundRecord], config: GuardConfig) -> float:
    """Share of clear losses that pass, plus that of clear gains that are rejected, plus a tenth of the large gains
    of which *helped* is not said."""
    outcomes = ground_outcomes(records, config)
    return (
        _share([one.helped is not False for one in outcomes if one.change < -CLEAR])
        + _share([one.helped is False for one in outcomes if one.change > CLEAR])
        + 0.1 * _share([one.helped is not True for one in outcomes if one.change > LARGE])
    )


def calibrated(records: Sequence[GroundRecord]) -> GuardConfig:
    """One threshold after the other at the value with the lowest cost; of equally good ones the middle one.

    The search starts in the middle of what is tried and not at the thresholds in use, which were chosen with many of
    the runs in sight.
    """
    config = GuardConfig(**{name: values[len(values) // 2] for name, values in CANDIDATES.items()})
    for _ in range(ROUNDS):
        for name, values in CANDIDATES.items():
            costs = {value: cost(records, replace(config, **{name: value})) for value in values}
            good = [value for value in values if costs[value] <= min(costs.values()) + 1e-12]
            config = replace(config, **{name: good[len(good) // 2]})
    return config


def left_out_outcomes(records: Iterable[GroundRecord]) -> list[Outcome]:
    """Every run judged with thresholds that were found on runs of other kinds of shift alone."""
    runs = [record for record in records if record.measurements]
    found = []
    for kinds in dict.fromkeys(frozenset(kinds_of(record.run.pair)) for record in runs):
        inside = [record for record in runs if kinds_of(record.run.pair) == kinds]
        outside = [record for record in runs if not kinds_of(record.run.pair) & kinds]
        found += ground_outcomes(inside, calibrated(outside)) if outside else []
    return found


def _share(wrong: Sequence[bool]) -> float:
    return statistics.fmean(wrong) if wrong else 0.0
