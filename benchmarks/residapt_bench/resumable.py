"""Runs that leave records: what has one is not run again; each finished run is one line, written at once."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError

from residapt.errors import DataError, Interrupted
from residapt.parallel import Pool
from residapt.parallel.local_pool import LocalPool

Record = dict[str, Any]


class AnyPlan(Protocol):
    """What describes one run."""

    def key(self) -> str:
        """A name that two plans share exactly when they would give the same run."""
        ...

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        """The plan as a record holds it."""
        ...

    @classmethod
    def model_validate(cls, obj: Any) -> Any:
        """The plan that a record holds."""
        ...


P = TypeVar("P", bound=AnyPlan)


def key_of(plan: AnyPlan) -> str:
    """The plan's own key."""
    return plan.key()


def read_records(paths: Iterable[Path]) -> list[Record]:
    """All records of the files; a last line that an interruption cut off is left out, any other damage is an error."""
    records = []
    for path in paths:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
        for number, line in enumerate(lines, 1):
            record = _parse(line)
            if record is not None:
                records.append(record)
            elif number < len(lines):
                raise DataError(f"{path}, line {number} is not a record (a JSON object with a key); remove the line.")
    return records


def _parse(line: str) -> Record | None:
    try:
        found = json.loads(line)
    except (json.JSONDecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) and "key" in found else None


def append_record(path: Path, record: Record) -> None:
    """Add one line, safe against other processes and against an earlier line without an end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0, os.SEEK_END)
        if file.tell() > 0:
            file.seek(file.tell() - 1)
            if file.read(1) != "\n":
                file.write("\n")
        file.write(json.dumps(record) + "\n")
        file.flush()
        os.fsync(file.fileno())


def pending(plans: Iterable[P], path: Path, key: Callable[[P], str] = key_of) -> list[P]:
    """The plans that have no record yet.

    Records are read as this version sees their plans: settings that are newer than a record have defaults. A plan that
    cannot be read keeps the key that it was written with.
    """
    wanted = list(plans)
    if not wanted:
        return []

    def done(record: Record) -> str:
        try:
            return key(type(wanted[0]).model_validate(record["plan"]))
        except (KeyError, ValidationError):
            return str(record["key"])

    finished = {done(record) for record in read_records([path])}
    return [plan for plan in wanted if key(plan) not in finished]


def run_pending(
    todo: list[P],
    work: Callable[[P], Record],
    *,
    out: Path,
    name: Callable[[P], str],
    engine: Pool | None = None,
    on_record: Callable[[Record], None] = lambda record: None,
    on_retry: Callable[[str], None] = lambda text: None,
) -> None:
    """Run plans and append their records as they come; only this process writes them."""
    if not todo:
        return
    done = 0
    try:
        with engine or LocalPool() as workers:
            for _, record in workers.map(work, todo, name=name, on_retry=on_retry):
                append_record(out, record)
                done += 1
                on_record(record)
    except KeyboardInterrupt:
        raise Interrupted(
            f"stopped with {done} of {len(todo)} runs done. The same command goes on: '{out}' has their records.",
            step=done,
        ) from None
