"""The guard's verdicts on recorded runs, compared with the labels that it never sees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.table import Table

from residapt.evaluate.guard import GuardConfig, Judgement, decide
from residapt_bench.plan import RecordedPlan
from residapt_bench.record import Record
from residapt_bench.report.markdown import markdown

CLEAR = 5.0
"""Points of accuracy from which a change is a gain or a loss that the guard must not mistake."""
HEADINGS = ("task", "network", "method", "note", "seed", "before", "after", "change", "guard", "right")


@dataclass(frozen=True)
class Judged:
    """One run: accuracy of the source network and of the adapted one, and what the guard said."""

    plan: RecordedPlan
    before: float
    after: float
    verdict: Judgement

    @property
    def change(self) -> float:
        """Points gained."""
        return self.after - self.before

    @property
    def right(self) -> bool | None:
        """Whether a clear loss was rejected and a clear gain was not; None where the change is small."""
        if abs(self.change) <= CLEAR:
            return None
        return (self.verdict.helped is False) == (self.change < 0)

    def cells(self) -> tuple[str, ...]:
        """Text of the columns of ``HEADINGS``."""
        said = {True: "helped", False: "rejected", None: "no clear evidence"}[self.verdict.helped]
        mark = {True: "yes", False: "NO", None: ""}[self.right]
        names = (self.plan.task, self.plan.arch, self.plan.method, self.plan.note)
        numbers = (f"{self.before:.1f}", f"{self.after:.1f}", f"{self.change:+.1f}")
        return (*names, str(self.plan.seed), *numbers, said, mark)


def judge(records: Iterable[Record], config: GuardConfig | None = None) -> list[Judged]:
    """Every adapted run whose source network has a record too; runs without measurements are left out."""
    everything = list(records)
    sources = {_start(r.plan): r for r in everything if r.plan.method == "source_only"}
    found = {}
    for record in everything:
        source = sources.get(_start(record.plan))
        if source is None or record is source or not _measured(record) or record.plan.method == "source_only":
            continue
        found[record.key] = Judged(record.plan, source.target, record.target, decide(record.label_free, config))
    return list(found.values())


def _start(plan: RecordedPlan) -> tuple[object, ...]:
    """What runs of one source network have in common; its seed is among the settings of its training."""
    return plan.task, plan.arch, plan.setup, plan.standardise, plan.precision, plan.source


def _measured(record: Record) -> bool:
    # A network of random weights is nothing to fall back to.
    return bool(record.label_free) and record.plan.source.steps > 0


def guard_table(judged: Sequence[Judged]) -> Table:
    """For a terminal."""
    table = Table(*HEADINGS)
    for item in judged:
        table.add_row(*item.cells())
    return table


def guard_markdown(judged: Sequence[Judged]) -> str:
    """For the documentation."""
    return markdown(HEADINGS, [item.cells() for item in judged])


def guard_totals(judged: Sequence[Judged]) -> str:
    """How many clear losses and gains there are, and how many of each were mistaken."""
    losses = [item for item in judged if item.change < -CLEAR]
    gains = [item for item in judged if item.change > CLEAR]
    return (
        f"{len(judged)} runs. Lost more than {CLEAR:g} points: {len(losses)}, of which "
        f"{sum(not item.right for item in losses)} were not rejected. Gained more than {CLEAR:g}: {len(gains)}, of "
        f"which {sum(not item.right for item in gains)} were rejected."
    )
