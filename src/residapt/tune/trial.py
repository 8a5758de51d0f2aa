"""One trial of a search: an ordinary run in a folder of its own, and the score that it ended with."""

from __future__ import annotations

import math
import shutil
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from torch import nn

from residapt.config import Config
from residapt.errors import DataError, Interrupted, ResidaptError
from residapt.run.api import run_request
from residapt.run.request import Request
from residapt.storage.run_directory import RunDirectory
from residapt.storage.summary import RunSummary, read_summary

State = Literal["scored", "turned down", "failed", "stopped"]


@dataclass(frozen=True, eq=False)
class TrialJob:
    """What a worker needs to know; there is no place for labels of the target."""

    number: int
    values: dict[str, Any]
    """The settings that are searched over."""
    config: Config
    source: Any
    target: Any
    out: Path
    score: str
    model: nn.Module | None = None
    classes: Sequence[str] | None = None
    train_source: bool | None = None
    trust_code: bool = False

    def __str__(self) -> str:
        return f"trial {self.number}"


@dataclass(frozen=True)
class Outcome:
    """How a trial ended."""

    state: State
    score: float | None = None
    """The adapted network's; higher is better."""
    before: float | None = None
    """The source network's."""
    reason: str = ""
    """Why it does not count."""
    seconds: float = 0.0
    signal: int = field(default=2)
    """What stopped it, if something did."""


def run_trial(job: TrialJob) -> Outcome:
    """Run it, or go on with it where it was stopped; a run that has ended is only read."""
    _check_places(job)
    started = time.monotonic()
    try:
        summary = _summary(job)
    except Interrupted as error:
        return Outcome("stopped", reason=str(error), signal=error.signal)
    except ResidaptError as error:
        return Outcome("failed", reason=str(error), seconds=time.monotonic() - started)
    return judge(summary, job.score, time.monotonic() - started)


def judge(summary: RunSummary, score: str, seconds: float = 0.0) -> Outcome:
    """What a run's summary says; what the guard takes for worse than the source network does not count."""
    before, after = summary.scores.get(score, (math.nan, math.nan))
    if not math.isfinite(after):
        return Outcome("failed", reason=f"the score {score} cannot be computed on this data", seconds=seconds)
    if summary.verdict.helped is False:
        reason = "; ".join(summary.verdict.reasons)
        return Outcome("turned down", after, before, reason=reason, seconds=seconds)
    return Outcome("scored", after, before, seconds=seconds)


def _summary(job: TrialJob) -> RunSummary:
    run = RunDirectory(job.out)
    if run.summary.exists():
        return read_summary(run.summary)
    begun = run.config.is_file()
    if not begun and job.out.exists():
        shutil.rmtree(job.out)  # stopped before it had anything to go on from
    request = Request(
        config=job.config,
        source=job.source,
        target=job.target,
        model=job.model,
        classes=job.classes,
        train_source=job.train_source,
        out=job.out,
        resume=begun,
        trust_code=job.trust_code,
    )
    return run_request(request).summary


def _check_places(job: TrialJob) -> None:
    """Refuse a machine that does not see the study or the data: no fault of the trial, so the search ends."""
    host = socket.gethostname()
    if not job.out.parent.is_dir():
        raise DataError(
            f"the folder '{job.out.parent}' of the study does not exist on {host}. Put it on a file system that all "
            "machines see under the same path."
        )
    for place in (job.config.data.source, job.config.data.target):
        if place is not None and not Path(place).is_dir():
            raise DataError(f"the folder '{place}' does not exist on {host}. Every machine needs the data there.")
