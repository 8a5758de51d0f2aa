"""Which of several source networks to start from, by a label-free score whose choice is made on other pairs.

Every network is adapted for a short while on every pair. On the pairs of :data:`RULE_PAIRS` a candidate score is as
good as its rank correlation with the accuracy on the target; the score with the highest mean is the rule. On any other
pair the network with the highest value of that score is the chosen one. That pair's target labels are not read.
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from scipy import stats

from residapt.errors import DataError
from residapt_bench.record import Record

RULE_PAIRS = ("svhn-usps", "mnist-usps", "usps-mnist")
"""Pairs whose target labels decide which score is the rule."""
By = Literal["rule", "labels"]
"""Whether a network is chosen by the rule, or by the labels of the pair itself: the oracle."""


class Candidate(NamedTuple):
    """A label-free score of a network."""

    score: str
    """Its name in records."""
    place: Literal[0, 1]
    """0: of the source network before adaptation; 1: of the adapted one."""

    @property
    def text(self) -> str:
        """For tables."""
        return f"{self.score}, {'after' if self.place else 'before'}"

    def of(self, record: Record) -> float:
        """The value that a run has."""
        try:
            return record.label_free[self.score][self.place]
        except KeyError:
            raise DataError(f"record '{record.key}' has no label-free score '{self.score}'.") from None


_BOTH = ("source_accuracy", "class_ami", "infomax", "bnm", "snd")
CANDIDATES = (
    *(Candidate(name, 0) for name in _BOTH),
    *(Candidate(name, 1) for name in (*_BOTH, "anchored_ami")),
)
"""In the order that decides between equally good ones."""


@dataclass(frozen=True)
class Judged:
    """How good a candidate is on the pairs of the rule."""

    candidate: Candidate
    correlations: dict[str, float]
    """Rank correlation with the accuracy, by pair."""
    losses: dict[str, float]
    """Points between the most accurate network and the one that the candidate picks, by pair."""

    @property
    def mean(self) -> float:
        """Mean correlation."""
        return statistics.fmean(self.correlations.values())

    @property
    def loss(self) -> float:
        """Mean loss."""
        return statistics.fmean(self.losses.values())


@dataclass(frozen=True)
class NetworkChoice:
    """The network of one pair."""

    seed: int
    """The seed that trained it."""
    sha256: str | None
    """Hash of its weights."""
    by: str
    """What it was chosen by."""


def short_runs(records: Iterable[Record], pairs: Sequence[str]) -> dict[str, dict[int, Record]]:
    """Runs by pair and seed; an error unless every pair has the same seeds, two or more."""
    found: dict[str, dict[int, Record]] = {pair: {} for pair in pairs}
    for record in records:
        if record.plan.task in found:
            found[record.plan.task][record.plan.seed] = record
    seeds = {seed for runs in found.values() for seed in runs}
    missing = [f"{pair} seed {seed}" for pair, runs in found.items() for seed in sorted(seeds - runs.keys())]
    if missing or len(seeds) < 2:
        what = ", ".join(missing) or "all but one seed"
        raise DataError(f"a network can only be chosen when every short run is there; missing: {what}. Run them first.")
    return found


def judge_candidates(records: Iterable[Record]) -> list[Judged]:
    """All candidates, the rule first."""
    runs = short_runs(records, RULE_PAIRS)
    judged = [_judge(candidate, runs) for candidate in CANDIDATES]
    return sorted(judged, key=lambda each: (-each.mean, each.loss))  # stable: then in the order of CANDIDATES


def restart_score(records: Iterable[Record]) -> Candidate:
    """The best candidate among the scores after adaptation: what tells runs of one source network apart."""
    return next(each.candidate for each in judge_candidates(records) if each.candidate.place == 1)


def choose_network(records: Iterable[Record], pair: str, by: By = "rule") -> NetworkChoice:
    """The network of a pair: by the rule, or the most accurate one by the pair's own labels."""
    everything = list(records)
    runs = short_runs(everything, (*RULE_PAIRS, pair))[pair]
    if by == "labels":
        seed, name = max(sorted(runs), key=lambda each: runs[each].target), f"labels of {pair}"
    else:
        rule = judge_candidates(everything)[0].candidate
        seed, name = max(sorted(runs), key=lambda each: rule.of(runs[each])), rule.text
    return NetworkChoice(seed, runs[seed].source_sha256, name)


def _judge(candidate: Candidate, runs: Mapping[str, Mapping[int, Record]]) -> Judged:
    correlations, losses = {}, {}
    for pair, by_seed in runs.items():
        values = [candidate.of(record) for record in by_seed.values()]
        accuracies = [record.target for record in by_seed.values()]
        correlations[pair] = rank_correlation(values, accuracies)
        losses[pair] = max(accuracies) - accuracies[values.index(max(values))]
    return Judged(candidate, correlations, losses)


def rank_correlation(values: Sequence[float], accuracies: Sequence[float]) -> float:
    """Spearman's; 0 where one side is constant, which tells nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        found = float(stats.spearmanr(values, accuracies).statistic)
    return 0.0 if math.isnan(found) else found
