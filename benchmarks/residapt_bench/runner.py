"""Many runs, resumable: what has a record is not run again; each finished run is one line, written at once."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from residapt.errors import DataError, Interrupted
from residapt.train import Callback, Method
from residapt_bench.experiment import execute
from residapt_bench.plan import DroneSetup, Plan
from residapt_bench.record import Record, append_record, read_records

SECONDS = 30.0
"""Time between two progress lines of one run."""
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

    A plan with settings that this version does not know keeps the key that it was written with.
    """
    try:
        return Plan.model_validate(record.plan.model_dump()).key()
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


class Progress:
    """Lines about the whole: finished runs and the time that is left."""

    def __init__(self, log: Path, total: int) -> None:
        self.log, self.total, self.done = log, total, 0
        self._started = time.monotonic()

    def line(self, text: str) -> None:
        """Write a line."""
        write_line(text, self.log)

    def finished(self, record: Record) -> None:
        """One more run."""
        self.done += 1
        rest = (time.monotonic() - self._started) / self.done * (self.total - self.done)
        left = f", about {_duration(rest)} left" if self.done < self.total else ""
        self.line(f"[{self.done}/{self.total}] {describe(record)}{left}")


class StepLines(Callback):
    """A line about a run now and then."""

    def __init__(self, name: str, log: Path | None, seconds: float = SECONDS) -> None:
        self.name, self.log, self.seconds = name, log, seconds
        self._steps, self._from, self._started, self._last = 0, 0, 0.0, 0.0

    def on_start(self, method: Method, step: int, steps: int) -> None:
        """Start the clock."""
        self._steps, self._from = steps, step
        self._started = self._last = time.monotonic()

    def on_step(self, method: Method, step: int) -> None:
        """Write a line if the last one was written long enough ago."""
        now = time.monotonic()
        if now - self._last < self.seconds:
            return
        self._last = now
        rest = (now - self._started) / (step - self._from) * (self._steps - step)
        write_line(f"{self.name}: step {step:,} of {self._steps:,}, about {_duration(rest)} left", self.log)


def write_line(text: str, log: Path | None) -> None:
    """A line on standard output, at once, and with the time in the log."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")


def describe(record: Record) -> str:
    """What a run came to."""
    plan = record.plan
    if isinstance(plan.setup, DroneSetup):
        scores = ", ".join(f"{name} AP {record.precision(name):.3f}" for name in record.scores)
        name = f"{plan.task} {plan.full_name} {record.labelled} labels seed {plan.seed}"
    else:
        scores = f"{next(iter(record.scores))} {record.target:.1f} %"
        name = f"{plan.task} {plan.full_name} seed {plan.seed}"
    note = f", {plan.note}" if plan.note else ""
    return f"{name}{note}: {scores}, {_duration(record.seconds)}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
