"""The guard's verdicts on recorded runs, compared with the labels that it never sees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich.table import Table

from residapt.evaluate.guard import GuardConfig, Judgement, decide
from residapt_bench.plan import RecordedPlan
from residapt_bench.proving_ground.grid import GroundRecord
from residapt_bench.proving_ground.registry import ALL_PAIRS
from residapt_bench.record import Record
from residapt_bench.report.markdown import markdown

CLEAR = 5.0
"""Points of accuracy from which a change is a gain or a loss that the guard must not mistake."""
LARGE = 10.0
"""Points from which a gain should be said to have helped."""
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


@dataclass(frozen=True)
class Outcome:
    """A run as the guard's error rates count it."""

    group: str
    """Runs of one group have the same domains, and are not independent of each other."""
    change: float
    """Points gained."""
    helped: bool | None
    """What the guard said."""


Counts = Callable[[Outcome], bool]


def outcomes_of(judged: Iterable[Judged]) -> list[Outcome]:
    """Runs of the benchmarks, grouped by task."""
    return [Outcome(item.plan.task, item.change, item.verdict.helped) for item in judged]


def ground_outcomes(records: Iterable[GroundRecord], config: GuardConfig | None = None) -> list[Outcome]:
    """Runs of the proving ground, grouped by pair, a variant with the pair that it is one of."""
    return [
        Outcome(
            ALL_PAIRS[record.run.pair].base or record.run.pair,
            record.adapted - record.source,
            decide(record.measurements, config).helped,
        )
        for record in records
        if record.measurements
    ]


def guard_totals(outcomes: Sequence[Outcome]) -> str:
    """How often clear losses were not rejected, clear gains were, and large gains were said to have helped."""
    lines = []
    kinds: tuple[tuple[str, str, Counts, Counts], ...] = (
        (
            f"lost more than {CLEAR:g} points",
            "not rejected",
            lambda o: o.change < -CLEAR,
            lambda o: o.helped is not False,
        ),
        (f"gained more than {CLEAR:g} points", "rejected", lambda o: o.change > CLEAR, lambda o: o.helped is False),
        (
            f"gained more than {LARGE:g} points",
            "helped said of",
            lambda o: o.change > LARGE,
            lambda o: o.helped is True,
        ),
    )
    for what, said, inside, counted in kinds:
        of = [one for one in outcomes if inside(one)]
        lines.append(f"{what}: {len(of)} runs, {said} {_rate([(one.group, counted(one)) for one in of])}")
    return f"{len(outcomes)} runs. " + "; ".join(lines) + "."


def _rate(found: Sequence[tuple[str, bool]]) -> str:
    """Number, share and 95 % interval (Wilson) with runs of one group counted as they depend on each other."""
    if not found:
        return "0"
    groups: dict[str, list[bool]] = {}
    for group, wrong in found:
        groups.setdefault(group, []).append(wrong)
    count, hits = len(found), sum(wrong for _, wrong in found)
    share = hits / count
    # Between groups: the variance of a share whose numerators and denominators are sums over groups.
    spread = sum((sum(own) - share * len(own)) ** 2 for own in groups.values()) / count**2
    plain = share * (1 - share) / count
    if share in (0.0, 1.0):
        effective: float = len(groups)
    else:
        effective = min(count, max(len(groups), count * plain / spread)) if spread else count
    low, high = wilson(share, effective)
    return f"{hits} ({share:.1%}, {low:.1%} to {high:.1%}, {len(groups)} pairs of domains)"


def wilson(share: float, count: float, z: float = 1.96) -> tuple[float, float]:
    """Wilson's interval of a share of ``count`` independent trials."""
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * (share * (1 - share) / count + z * z / (4 * count**2)) ** 0.5
    return max(0.0, middle - half), min(1.0, middle + half)
