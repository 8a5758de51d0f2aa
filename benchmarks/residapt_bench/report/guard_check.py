"""The guard's verdicts on recorded runs, held against the labels that it never sees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from rich.table import Table

from residapt.evaluate.guard import GuardConfig, Judgement, decide
from residapt_bench.digits.plan import Plan

CLEAR = 5.0
"""Points of accuracy from which a change is a gain or a loss that the guard must not mistake."""
ADAPTATION = ("method", "settings", "train", "recipe", "note", "tries", "seed", "varied")
"""Parts of a plan that do not touch the source network, whose own seed is among its settings."""
HEADINGS = ("task", "network", "method", "note", "seed", "before", "after", "change", "guard", "right")

Record = dict[str, Any]


@dataclass(frozen=True)
class Judged:
    """One run: accuracy of the source network and of the adapted one, and what the guard said."""

    plan: dict[str, Any]
    before: float
    after: float
    verdict: Judgement

    @property
    def change(self) -> float:
        """Points gained."""
        return self.after - self.before

    @property
    def right(self) -> bool | None:
        """Whether a clear loss was turned down and a clear gain was not; None where the change is small."""
        if abs(self.change) <= CLEAR:
            return None
        return (self.verdict.helped is False) == (self.change < 0)

    def cells(self) -> tuple[str, ...]:
        """Text of the columns of ``HEADINGS``."""
        said = {True: "helped", False: "turned down", None: "no clear evidence"}[self.verdict.helped]
        mark = {True: "yes", False: "NO", None: ""}[self.right]
        names = (self.plan[name] for name in ("task", "arch", "method", "note"))
        numbers = (f"{self.before:.1f}", f"{self.after:.1f}", f"{self.change:+.1f}")
        return (*names, str(self.plan["seed"]), *numbers, said, mark)


def judge(records: Iterable[Record], config: GuardConfig | None = None) -> list[Judged]:
    """Every adapted run whose source network has a record too; runs without measurements are left out."""
    everything = list(records)
    sources = {_start(r["plan"]): r for r in everything if r["plan"]["method"] == "source_only"}
    found = {}
    for record in everything:
        source = sources.get(_start(record["plan"]))
        if source is None or record is source or not _measured(record) or record["plan"]["method"] == "source_only":
            continue
        before, after = (float(item["accuracy"]["target_test"]) for item in (source, record))
        found[record["key"]] = Judged(record["plan"], before, after, decide(record["label_free"], config))
    return list(found.values())


def _start(plan: dict[str, Any]) -> str:
    """What two runs of one source network have in common: everything but the adaptation.

    Settings that are newer than a record have defaults, so that runs of different versions find each other.
    """
    with suppress(ValidationError):  # a plan of another benchmark, or of a later version, stays as it is
        plan = Plan.model_validate(plan).model_dump(mode="json")
    return str(sorted((name, value) for name, value in plan.items() if name not in ADAPTATION))


def _measured(record: Record) -> bool:
    # A network of random weights is nothing to fall back to.
    return bool(record.get("label_free")) and record["plan"]["source"]["steps"] > 0


def guard_table(judged: Sequence[Judged]) -> Table:
    """For a terminal."""
    table = Table(*HEADINGS)
    for item in judged:
        table.add_row(*item.cells())
    return table


def guard_markdown(judged: Sequence[Judged]) -> str:
    """For the documentation."""
    lines = ["| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    lines += ["| " + " | ".join(item.cells()) + " |" for item in judged]
    return "\n".join(lines) + "\n"


def guard_totals(judged: Sequence[Judged]) -> str:
    """How many clear losses and gains there are, and how many of each were mistaken."""
    losses = [item for item in judged if item.change < -CLEAR]
    gains = [item for item in judged if item.change > CLEAR]
    return (
        f"{len(judged)} runs. Lost more than {CLEAR:g} points: {len(losses)}, of which "
        f"{sum(not item.right for item in losses)} were not turned down. Gained more than {CLEAR:g}: {len(gains)}, of "
        f"which {sum(not item.right for item in gains)} were turned down."
    )
