"""Runs that differ by their seed only: what tables average and agreement compares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from residapt_bench.record import Record


class RunGroup(NamedTuple):
    """What such runs have in common. Variants of the settings are distinguished by ``note``."""

    task: str
    arch: str
    method: str
    recipe: str
    steps: int
    """Of adaptation."""
    varied: str
    note: str

    @classmethod
    def of(cls, record: Record) -> RunGroup:
        """The group of a record."""
        plan = record.plan
        return cls(plan.task, plan.arch, plan.method, plan.recipe, plan.steps, plan.varied, plan.note)


def run_groups(records: Iterable[Record]) -> dict[RunGroup, list[Record]]:
    """The records by their group, in the order in which the groups appear."""
    groups: dict[RunGroup, list[Record]] = {}
    for record in records:
        groups.setdefault(RunGroup.of(record), []).append(record)
    return groups
