"""Runs that differ by their seed only: what tables average and agreement compares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from residapt.errors import DataError
from residapt_bench.budget import adaptation_steps


class RunGroup(NamedTuple):
    """What such runs have in common. Settings changed by hand are told by ``note``."""

    task: str
    arch: str
    method: str
    recipe: str
    steps: int
    """Of adaptation."""
    varied: str
    note: str

    @classmethod
    def of(cls, record: dict[str, Any]) -> RunGroup:
        """The group of a record of a grid."""
        try:
            plan = record["plan"]
            same = {name: plan[name] for name in cls._fields if name != "steps"}
            return cls(**same, steps=adaptation_steps(plan))
        except (KeyError, TypeError) as error:
            raise DataError(f"record '{record.get('key')}' is not one of a grid: it has no {error}.") from None


def run_groups(records: Iterable[dict[str, Any]]) -> dict[RunGroup, list[dict[str, Any]]]:
    """The records by their group, in the order in which the groups appear."""
    groups: dict[RunGroup, list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault(RunGroup.of(record), []).append(record)
    return groups
