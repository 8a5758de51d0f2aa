"""What each method comes to where a label-free score picks one of its variants, seed by seed."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from residapt.errors import DataError
from residapt_bench.record import Record
from residapt_bench.report.markdown import markdown
from residapt_bench.report.paired import PairedDifference


@dataclass(frozen=True)
class Variants:
    """The runs of one method with different settings, by seed and note."""

    method: str
    runs: dict[int, dict[str, Record]]

    def accuracy(self, seed: int, note: str) -> float:
        """Of one variant, in per cent."""
        return self.runs[seed][note].target

    def pick(self, seed: int, score: str) -> str:
        """The note of the variant with the highest score after training."""
        variants = self.runs[seed]
        try:
            return max(variants, key=lambda note: variants[note].label_free[score][1])
        except KeyError:
            known = ", ".join(sorted(next(iter(variants.values())).label_free))
            raise DataError(f"the records have no score '{score}'; scores: {known}.") from None


@dataclass(frozen=True)
class Comparison:
    """Two methods with the same variants."""

    first: Variants
    second: Variants

    @property
    def seeds(self) -> list[int]:
        """Seeds for which both have variants."""
        return sorted(self.first.runs.keys() & self.second.runs.keys())

    def picked(self, score: str) -> list[tuple[int, float, float]]:
        """For each seed the accuracies of both methods' picks."""
        first, second = self.first, self.second
        return [
            (seed, first.accuracy(seed, first.pick(seed, score)), second.accuracy(seed, second.pick(seed, score)))
            for seed in self.seeds
        ]

    def difference(self, score: str) -> PairedDifference:
        """First minus second, each with its own pick."""
        found = {seed: one - other for seed, one, other in self.picked(score)}
        return PairedDifference(self.first.method, self.second.method, found)

    def over_all(self) -> PairedDifference:
        """First minus second, the mean over all variants of a seed: what settings without any choice come to."""
        found = {}
        for seed in self.seeds:
            notes = self.first.runs[seed]
            found[seed] = statistics.fmean(
                self.first.accuracy(seed, note) - self.second.accuracy(seed, note) for note in notes
            )
        return PairedDifference(self.first.method, self.second.method, found)


def compare_variants(records: Iterable[Record], first: str, second: str, recipe: str = "common") -> Comparison:
    """Both methods' variants; an error where one has variants that the other has not."""
    kept = [record for record in records if record.plan.recipe == recipe]
    found = Comparison(_variants(kept, first), _variants(kept, second))
    if not found.seeds:
        raise DataError(f"'{first}' and '{second}' have no seed in common.")
    for seed in found.seeds:
        alone = found.first.runs[seed].keys() ^ found.second.runs[seed].keys()
        if alone:
            raise DataError(
                f"seed {seed}: {len(alone)} variants were run with one of '{first}' and '{second}' only, for instance "
                f"'{min(alone)}'. Run the missing ones first."
            )
    return found


def _variants(records: Sequence[Record], name: str) -> Variants:
    runs: dict[int, dict[str, Record]] = {}
    for record in records:
        plan = record.plan
        if plan.method == name:
            variants = runs.setdefault(plan.seed, {})
            if plan.note in variants:
                raise DataError(
                    f"seed {plan.seed} has two runs of '{name}' with the note '{plan.note}': tasks, networks and "
                    "lengths of training need files of their own."
                )
            variants[plan.note] = record
    if not runs:
        raise DataError(f"there are no runs of '{name}'.")
    return Variants(name, runs)


def picked_text(found: Comparison, score: str) -> str:
    """Markdown: a row for each seed, then both differences."""
    first, second = found.first.method, found.second.method
    rows = []
    for seed, one, other in found.picked(score):
        values = [[each.accuracy(seed, note) for note in each.runs[seed]] for each in (found.first, found.second)]
        means = [f"{statistics.fmean(each):.1f}" for each in values]
        bests = [f"{max(each):.1f}" for each in values]
        rows.append((str(seed), str(len(values[0])), f"{one:.1f}", f"{other:.1f}", *means, *bests))
    heads = (
        "seed",
        "variants each",
        *(f"{name}, {what}" for what in (f"by {score}", "mean", "best") for name in (first, second)),
    )
    lines = [markdown(heads, rows), f"By {score}: {found.difference(score).text()}"]
    return "\n".join([*lines, f"Over all variants: {found.over_all().text()}"])
