"""A resumable grid of runs: what has a record is not run again; each finished run is one line, written at once."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from residapt.bench.engines import WorkEngine
from residapt.bench.execute import execute
from residapt.bench.local_engine import LocalEngine
from residapt.bench.plan import Plan
from residapt.errors import DataError, Interrupted

Record = dict[str, Any]


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


def pending(plans: Iterable[Plan], path: Path) -> list[Plan]:
    """The plans that have no record yet."""
    done = {_key_of(record) for record in read_records([path])}
    return [plan for plan in plans if run_key(plan) not in done]


def run_key(plan: Plan) -> str:
    """The key by which a run is known to be done: ``source_only`` after a warm start has no steps to count."""
    if plan.method == "source_only" and plan.source.steps > 0:
        plan = plan.model_copy(update={"train": plan.train.model_copy(update={"steps": 0})})
    return plan.key()


def _key_of(record: Record) -> str:
    """The key of the plan in a record as this version sees it: settings that are newer than the record have defaults.

    A plan that this version cannot read keeps the key that it was written with.
    """
    try:
        return run_key(Plan.model_validate(record["plan"]))
    except (KeyError, ValidationError):
        return str(record["key"])


def run_grid(
    plans: Iterable[Plan],
    *,
    out: Path,
    root: Path,
    cache: Path,
    engine: WorkEngine | None = None,
    on_record: Callable[[Record], None] = lambda record: None,
    on_retry: Callable[[str], None] = lambda text: None,
) -> None:
    """Run all plans that have no record, and append theirs as they come; only this process writes records."""
    todo = pending(plans, out)
    if not todo:
        return
    # Workers may have another working directory.
    work = partial(run_plan, root=root.absolute(), cache=cache.absolute())
    done = 0
    try:
        with engine or LocalEngine() as workers:
            for _, record in workers.map(work, todo, name=name_of, on_retry=on_retry):
                append_record(out, record)
                done += 1
                on_record(record)
    except KeyboardInterrupt:
        raise Interrupted(
            f"stopped with {done} of {len(todo)} runs done. The same command goes on: '{out}' has their records.",
            step=done,
        ) from None


def run_plan(plan: Plan, *, root: Path, cache: Path) -> Record:
    """One run, with one thread, on whichever machine this is."""
    torch.set_num_threads(1)
    if not root.is_dir():
        raise DataError(
            f"data folder '{root}' does not exist on {socket.gethostname()}. Put the data there: every machine reads "
            "them under the same path."
        )
    return execute(plan, root=root, cache=cache)


def name_of(plan: Plan) -> str:
    """A run, for messages and process lists."""
    note = f", {plan.note}" if plan.note else ""
    return f"{plan.task} {plan.arch} {plan.method} seed {plan.seed}{note} ({plan.key()})"
