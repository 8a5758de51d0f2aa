"""The experiments of the paper's page: what each asks for, and what has come of it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from residapt_bench.experiment_file import read_experiment
from residapt_bench.plan import Plan, PlanBase
from residapt_bench.record import Record, read_records

EXPERIMENTS = (
    "paper-networks",
    "paper-tries",
    "paper-orders",
    "paper-svhnet",
    "paper-office31-resnet50",
    "paper-orders-flipped",
    "paper-grid",
    "paper-oracle",
    "paper-restarts",
    "paper-svhnet-seeds",
    "paper-own-recipes",
    "paper-sweeps",
    "paper-drones-tries",
    "paper-drones",
)
"""In the order in which they are run."""


@dataclass(frozen=True)
class Runs:
    """One experiment: what it asks for, and what has come of it."""

    title: str
    planned: Sequence[Plan]
    records: Sequence[Record]

    def found(self, method: str, note: str = "", task: str | None = None) -> list[Record]:
        """Records of one row."""
        return [run for run in self.records if _is(run.plan, method, note, task)]

    def cell(
        self,
        method: str,
        note: str = "",
        task: str | None = None,
        value: Callable[[Record], float] = lambda run: run.target,
        digits: int = 1,
    ) -> str:
        """Mean ± spread (runs there of runs asked for); nothing where the experiment does not ask for it."""
        asked = sum(_is(plan, method, note, task) for plan in self.planned)
        values = [value(run) for run in self.found(method, note, task)]
        if not asked:
            return ""
        if not values:
            return f"0 of {asked}"
        spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
        count = f"n = {asked}" if len(values) == asked else f"{len(values)} of {asked}"
        return f"{statistics.fmean(values):.{digits}f}{spread} ({count})"


Lab = Mapping[str, Runs]


def read_lab(experiments: Path, results: Path) -> dict[str, Runs]:
    """All experiments of the paper, with the records that there are."""
    found = {}
    for name in EXPERIMENTS:
        file = read_experiment(experiments / f"{name}.toml")
        found[name] = Runs(file.title, file.without_choices().plans(), read_records([results / f"{name}.jsonl"]))
    return found


def _is(plan: PlanBase, method: str, note: str, task: str | None) -> bool:
    """Whether a run belongs to a row; those of a sweep do not."""
    return (plan.method, plan.note, plan.swept) == (method, note, "") and task in (None, plan.task)
