"""Many runs, resumable: what has a record is not run again; each finished run is one line, written at once."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from residapt.errors import DataError, Interrupted
from residapt_bench.experiment import execute
from residapt_bench.plan import Plan
from residapt_bench.progress import Progress, StepLines
from residapt_bench.record import Record, append_record, read_records

Work = Callable[[Plan], Record]


class ThisProcess:
    """One run after the other, in this process."""

    def map(self, function: Work, items: Iterable[Plan], **options: Any) -> Iterator[tuple[Plan, Record]]:
        """Each plan with its record."""
        for item in items:
            yield item, function(item)


def pending(plans: Iterable[Plan], path: Path) -> list[Plan]:
    """The plans that have no record yet."""
    finished = {_key(record) for record in read_records([path])}
    return [plan for plan in plans if plan.key() not in finished]


def _key(record: Record) -> str:
    """The key as this version computes it: settings that are newer than the record have their defaults.

    Settings that this version does not have are left out: a run in which one of them was changed has a note that says
    so, and is mistaken for no other.
    """
    plan = record.plan.model_dump()
    try:
        return Plan.model_validate(plan).key()
    except ValidationError as error:
        unknown = [problem["loc"] for problem in error.errors() if problem["type"] == "extra_forbidden"]
    for *place, name in unknown:
        group: dict[str, Any] = plan
        for part in place:
            group = group[str(part)]
        del group[str(name)]
    try:
        return Plan.model_validate(plan).key()
    except ValidationError:
        return record.key


def run_plans(
    plans: Iterable[Plan],
    *,
    out: Path,
    root: Path,
    cache: Path,
    engine: AbstractContextManager[Any] | None = None,
    work: Callable[..., Record] | None = None,
) -> None:
    """Run what has no record in ``out``, and append the records as they come; only this process writes them.

    Progress goes to standard output and, with the time, into a log beside the records.
    """
    wanted = list(plans)
    todo = pending(wanted, out)
    progress = Progress(out.with_suffix(".log"), total=len(todo))
    progress.line(f"{len(wanted)} runs, {len(wanted) - len(todo)} of them have records in {out}; {len(todo)} to do")
    # Workers may have another working directory.
    function = partial(work or run_plan, root=root.absolute(), cache=cache.absolute(), log=progress.log.absolute())
    try:
        with engine or nullcontext(ThisProcess()) as workers:
            options: dict[str, Any] = {"name": Plan.name, "on_retry": progress.line}
            for _, record in workers.map(function, todo, **options) if todo else ():
                append_record(out, record)
                progress.finished(record)
    except KeyboardInterrupt:
        raise Interrupted(
            f"stopped with {progress.done} of {len(todo)} runs done. The same command goes on: '{out}' has their "
            "records.",
            step=progress.done,
        ) from None


def run_plan(plan: Plan, *, root: Path, cache: Path, log: Path | None = None) -> Record:
    """One run, with one thread, on whichever machine this is."""
    torch.set_num_threads(1)
    if not root.is_dir():
        raise DataError(
            f"data folder '{root}' does not exist on {socket.gethostname()}. Put the data there: every machine reads "
            "them under the same path."
        )
    return execute(plan, root=root, cache=cache, callbacks=[StepLines(plan.name(), log)])
