"""Tables of the proving ground's runs: every recipe on every pair, and what leave-one-kind-out would have chosen."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from residapt.evaluate.guard import decide
from residapt_bench.proving_ground.grid import GroundRecord
from residapt_bench.proving_ground.library import DataError
from residapt_bench.proving_ground.registry import ALL_PAIRS
from residapt_bench.proving_ground.source_only import NO_HARM_ABOVE
from residapt_bench.report.markdown import markdown

PLAIN = ("paper", "statistics", "dann")
"""Recipes whose source network is trained without changed images; its figure is source only."""
VERDICTS = {True: "helped", False: "rejected", None: "not clear"}


@dataclass(frozen=True)
class Result:
    """A recipe on a pair: means over its seeds."""

    adapted: float
    selected: float
    error: float
    """Standard error of ``selected`` minus source only over the seeds; 0 for one seed."""
    verdicts: tuple[bool | None, ...]
    """Of the guard, by seed."""
    diverged: int
    """Runs that diverged on the way and went back to a good state, as their notes say."""


@dataclass(frozen=True)
class PairResults:
    """All that is known of a pair."""

    pair: str
    source: float | None
    """Source only, of a network that was trained plainly: mean over the seeds; None before such a run is there."""
    by_recipe: Mapping[str, Result]

    @property
    def kind(self) -> str:
        """The kind of shift."""
        return ALL_PAIRS[self.pair].kind

    @property
    def kinds(self) -> set[str]:
        """Its kind, and that of the pair that it is a variant of."""
        return kinds_of(self.pair)

    @property
    def has_room(self) -> bool:
        """Whether gains are counted; else only harm is."""
        return self.source is not None and self.source <= NO_HARM_ABOVE

    def gain(self, recipe: str) -> float:
        """Points above source only of what the guard selected."""
        assert self.source is not None
        return self.by_recipe[recipe].selected - self.source


def kinds_of(pair: str) -> set[str]:
    """A pair's kind of shift, and that of the pair that it is a variant of."""
    spec = ALL_PAIRS[pair]
    return {spec.kind} | ({ALL_PAIRS[spec.base].kind} if spec.base else set())


def results(records: Iterable[GroundRecord]) -> list[PairResults]:
    """The pairs in the registry's order."""
    records = list(records)
    found = []
    for pair in ALL_PAIRS:
        own = [record for record in records if record.run.pair == pair]
        plain = {record.run.seed: record.source for record in own if record.run.recipe in PLAIN}
        if own:
            names = dict.fromkeys(record.run.recipe for record in own)
            by_recipe = {name: _result([r for r in own if r.run.recipe == name], plain) for name in names}
            found.append(PairResults(pair, statistics.fmean(plain.values()) if plain else None, by_recipe))
    if not found:
        raise DataError("there are no records. Run: residapt bench run proving-ground")
    return found


def _result(records: Sequence[GroundRecord], plain: Mapping[int, float]) -> Result:
    found = [(record, *judged(record)) for record in records]
    changes = [selected - plain[record.run.seed] for record, _, selected in found if record.run.seed in plain]
    return Result(
        statistics.fmean(record.adapted for record in records),
        statistics.fmean(selected for _, _, selected in found),
        _error(changes),
        tuple(helped for _, helped, _ in found),
        sum(any("diverged" in note for note in record.notes) for record in records),
    )


def _error(values: Sequence[float]) -> float:
    """The standard error of a mean; 0 where there is one value."""
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def judged(record: GroundRecord) -> tuple[bool | None, float]:
    """What the guard of now says of the recorded measurements, and the figure of the network that it selects."""
    if not record.measurements:
        return record.helped, record.selected
    helped = decide(record.measurements).helped
    return helped, record.source if helped is False else record.adapted


def pairs_table(found: Sequence[PairResults]) -> str:
    """A line a pair: source only, each recipe's adapted network, with a mark where the guard rejected it."""
    recipes = _recipes(found)
    heads = ["pair", "kind", "source only", *recipes, "best", "regret of the last"]
    rows = []
    for one in found:
        cells = [_cell(one.by_recipe.get(recipe)) for recipe in recipes]
        best = max(one.by_recipe, key=lambda name: one.by_recipe[name].selected)
        last = one.by_recipe.get(recipes[-1])
        if len(one.by_recipe) == 1:  # nothing to compare with yet
            best, last = "", None
        regret = "" if last is None else f"{one.by_recipe[best].selected - last.selected:.1f}"
        source = "" if one.source is None else f"{one.source:.1f}" + ("" if one.has_room else " (no harm)")
        rows.append([f"`{one.pair}`", one.kind, source, *cells, best, regret])
    return markdown(heads, rows)


def _cell(result: Result | None) -> str:
    if result is None:
        return ""
    said = Counter(VERDICTS[verdict] for verdict in result.verdicts)
    words = ", ".join(f"{count} {word}" if len(result.verdicts) > 1 else word for word, count in said.items())
    error = f" ± {result.error:.1f}" if len(result.verdicts) > 1 else ""
    return f"{result.adapted:.1f}{error} ({words})" + (" d" if result.diverged else "")


def summary_table(found: Sequence[PairResults]) -> str:
    """A line a recipe, over the pairs that have all recipes: means, gains with standard errors over pairs, harm."""
    recipes = _recipes(found)
    whole = [one for one in found if one.source is not None and set(recipes) <= set(one.by_recipe)]
    room = [one for one in whole if one.has_room]
    if not room:
        return "No pair has all recipes yet.\n"
    last = f"{recipes[-1]} ahead by"
    heads = ["recipe", "pairs", "source only", "adapted", "selected", "gain", last, "above source only", "worst"]
    heads.append("harmed")
    rows = []
    for recipe in recipes:
        of = [one.by_recipe[recipe] for one in room]
        gains = [one.gain(recipe) for one in room]
        ahead = [one.gain(recipes[-1]) - one.gain(recipe) for one in room]
        everywhere = {one.pair: one.gain(recipe) for one in whole}
        worst = min(everywhere, key=lambda pair: everywhere[pair])
        harmed = sum(one.gain(recipe) < -1 - one.by_recipe[recipe].error for one in whole)
        rows.append([
            recipe, str(len(room)), f"{statistics.fmean(one.source or 0.0 for one in room):.1f}",
            f"{statistics.fmean(r.adapted for r in of):.1f}", f"{statistics.fmean(r.selected for r in of):.1f}",
            f"{statistics.fmean(gains):+.1f} ± {_error(gains):.1f}",
            "" if recipe == recipes[-1] else f"{statistics.fmean(ahead):+.1f} ± {_error(ahead):.1f}",
            f"{sum(gain > 0 for gain in gains)} of {len(gains)}", f"{everywhere[worst]:+.1f} ({worst})", str(harmed),
        ])  # fmt: skip
    return markdown(heads, rows)


def left_out_table(found: Sequence[PairResults]) -> str:
    """For each kind of shift the recipe that is best on the pairs of all others, and what it does on this kind."""
    recipes = _recipes(found)
    whole = [one for one in found if one.has_room and set(recipes) <= set(one.by_recipe)]
    kinds = list(dict.fromkeys(one.kind for one in whole))
    rows, total = [], []
    for kind in kinds:
        inside = [one for one in whole if one.kind == kind]
        outside = [one for one in whole if kind not in one.kinds]
        if not outside:
            continue
        chosen = max(recipes, key=lambda name: statistics.fmean(one.gain(name) for one in outside))
        gains = [one.gain(chosen) for one in inside]
        total += gains
        best = statistics.fmean(max(one.gain(name) for name in recipes) for one in inside)
        rows.append([kind, str(len(inside)), chosen, f"{statistics.fmean(gains):+.1f}", f"{best:+.1f}"])
    if total:
        rows.append(["all", str(len(total)), "", f"{statistics.fmean(total):+.1f}", ""])
    return markdown(["kind left out", "pairs", "chosen on the others", "its gain here", "best for each pair"], rows)


def _recipes(found: Sequence[PairResults]) -> list[str]:
    """In the order of the records, the default last."""
    names = dict.fromkeys(name for one in found for name in one.by_recipe)
    return sorted(names, key=lambda name: name == "default")
