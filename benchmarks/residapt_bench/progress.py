"""Progress of runs as lines on standard output, also where that is a file, and in a log beside the records."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from residapt.train import Callback, Method
from residapt_bench.plan import DroneSetup
from residapt_bench.record import Record

SECONDS = 30.0
"""Time between two lines of one run."""


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
        name = f"{plan.task} {plan.label} {record.labelled} labels seed {plan.seed}"
    else:
        scores = f"{next(iter(record.scores))} {record.target:.1f} %"
        name = f"{plan.task} {plan.label} seed {plan.seed}"
    note = f", {plan.note}" if plan.note else ""
    return f"{name}{note}: {scores}, {_duration(record.seconds)}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
