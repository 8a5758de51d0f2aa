"""Restarts on the proving ground: what picking one of five runs by a label-free score recovers.

The score is chosen on pairs of other kinds of shift, by their labels. The guard counts as it does in the library: runs
that it rejects come last, and their source network is what they come to.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from residapt_bench.proving_ground.grid import GroundRecord
from residapt_bench.proving_ground.grid_table import judged, kinds_of
from residapt_bench.proving_ground.library import DataError
from residapt_bench.report.markdown import markdown
from residapt_bench.report.restarts import SIZE, best_by_agreement, best_of

WORTH = 2.0
"""Points between the best of the runs and their mean from which there is something to recover."""


@dataclass(frozen=True)
class Runs:
    """Runs of a recipe on a pair that differ by their seed."""

    pair: str
    recipe: str
    figures: tuple[float, ...]
    """Of the network that the guard selects."""
    adapted: tuple[bool, ...]
    """Whether that is the adapted network."""
    scores: Mapping[str, tuple[float, ...]]
    """Of the adapted network."""
    predicted: tuple[str, ...] = ()
    """Classes that it predicts."""

    @property
    def mean(self) -> float:
        """What one run comes to."""
        return statistics.fmean(self.figures)

    @property
    def best(self) -> float:
        """What picking by labels would come to."""
        return best_of(self.figures, self.figures)

    @property
    def room(self) -> float:
        """Points that can be recovered."""
        return self.best - self.mean

    def recovered(self, found: float) -> float:
        """The share of the room that a way to pick recovers."""
        return (found - self.mean) / self.room if self.room > 0 else 1.0

    def picked(self, score: str) -> float:
        """What picking by the score comes to."""
        ranked = [value if good else -math.inf for value, good in zip(self.scores[score], self.adapted, strict=True)]
        return best_of(ranked, self.figures)

    @property
    def agreed(self) -> float | None:
        """What the library's way to pick comes to; None without predictions."""
        return best_by_agreement(self.predicted, self.figures, last=[not good for good in self.adapted])


def restart_groups(records: Iterable[GroundRecord]) -> list[Runs]:
    """The recipes that at least five seeds of a pair have been run with, and the scores that all their runs have."""
    runs: dict[tuple[str, str], dict[int, GroundRecord]] = {}
    for record in records:
        if record.scores:
            runs.setdefault((record.run.pair, record.run.recipe), {})[record.run.seed] = record
    found = []
    for (pair, recipe), by_seed in runs.items():
        if len(by_seed) < SIZE:
            continue
        own = [by_seed[seed] for seed in sorted(by_seed)]
        verdicts = [judged(record) for record in own]
        names = [name for name in own[0].scores if all(name in record.scores for record in own)]
        found.append(
            Runs(
                pair,
                recipe,
                tuple(figure for _, figure in verdicts),
                tuple(helped is not False for helped, _ in verdicts),
                {name: tuple(record.scores[name][1] for record in own) for name in names},
                tuple(record.predicted for record in own),
            )
        )
    return found


def chosen_score(groups: Sequence[Runs]) -> str:
    """The score that recovers most points on these runs; between equally good ones the first of the records."""
    names = [name for name in groups[0].scores if all(name in one.scores for one in groups)]
    return max(names, key=lambda name: statistics.fmean(one.picked(name) - one.mean for one in groups))


def ground_restart_table(records: Iterable[GroundRecord]) -> str:
    """A row for each recipe and pair: one run, the best of five by labels, and what two ways to pick recover of it.

    By agreement with the other runs, as the library does it, and by a score that was chosen on other kinds of shift.
    """
    groups = restart_groups(records)
    if not groups:
        raise DataError(f"the records have no recipe with {SIZE} seeds of a pair.")
    rows = []
    reached: dict[str, list[bool]] = {"agreement": [], "the score": []}
    for one in groups:
        others = [other for other in groups if not kinds_of(other.pair) & kinds_of(one.pair)]
        score = chosen_score(others) if others else ""
        ways = {"agreement": one.agreed, "the score": one.picked(score) if score else None}
        cells = ["" if found is None else f"{found:.1f} ({one.recovered(found):.0%})" for found in ways.values()]
        for way, found in ways.items():
            if found is not None and one.room > WORTH:
                reached[way].append(one.recovered(found) >= 0.5)
        single = f"{one.mean:.1f} ± {statistics.stdev(one.figures):.1f}"
        name = (f"`{one.pair}`", one.recipe, str(len(one.figures)))
        rows.append((*name, single, f"{one.best:.1f}", *cells, score))
    heads = ("pair", "recipe", "n", "one run", f"best of {SIZE}", "by agreement", "by a score", "chosen on other kinds")
    said = [f"by {way} {sum(good)} of {len(good)}" for way, good in reached.items()]
    return (
        f"{markdown(heads, rows)}\nRows with more than {WORTH:g} points to recover, half of them or more recovered: "
        + (", ".join(said) + ".\n")
    )
