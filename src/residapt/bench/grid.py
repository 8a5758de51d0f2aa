"""A resumable grid of runs: what has a record is not run again; each finished run is one line, written at once."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

from residapt.bench.execute import execute
from residapt.bench.plan import Plan
from residapt.errors import DataError

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
    done = {record["key"] for record in read_records([path])}
    return [plan for plan in plans if plan.key() not in done]


def run_grid(
    plans: Iterable[Plan],
    *,
    out: Path,
    root: Path,
    cache: Path,
    jobs: int = 1,
    on_record: Callable[[Record], None] = lambda r: None,
) -> None:
    """Run all plans that have no record, ``jobs`` at a time with one thread each."""
    todo = pending(plans, out)
    for record in _results(todo, root, cache, jobs):
        append_record(out, record)
        on_record(record)


def _results(plans: list[Plan], root: Path, cache: Path, jobs: int) -> Iterator[Record]:
    if jobs == 1 or len(plans) <= 1:
        for plan in plans:
            yield _one(plan, root, cache)
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(_one, plan, root, cache) for plan in plans]
        for future in as_completed(futures):
            yield future.result()


def _one(plan: Plan, root: Path, cache: Path) -> Record:
    torch.set_num_threads(1)
    return execute(plan, root=root, cache=cache)
