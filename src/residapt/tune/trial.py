"""One trial of a study: an ordinary run in a folder of its own, and the score that it ended with."""

from __future__ import annotations

import math
import shutil
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from residapt.config import Config
from residapt.errors import DataError, Interrupted, ResidaptError
from residapt.run.api import run_request
from residapt.run.request import Request
from residapt.storage.run_directory import RunDirectory
from residapt.storage.summary import RunSummary, read_summary
from residapt.tune.store import Outcome


@dataclass(frozen=True, eq=False)
class TrialJob:
    """What a worker needs for a trial; it has no field for target labels."""

    number: int
    values: dict[str, Any]
    """The settings searched over."""
    config: Config
    source: Any
    target: Any
    out: Path
    score: str
    model: nn.Module | None = None
    classes: Sequence[str] | None = None
    train_source: bool | None = None
    trust_code: bool = False
    outputs: Path | None = None
    """Where the outputs of frozen stages are that all trials share."""

    def __str__(self) -> str:
        return f"trial {self.number}"


def run_trial(job: TrialJob) -> Outcome:
    """Run a trial, or continue it where it was stopped; of a run that has ended only the summary is read."""
    _check_folders(job)
    started = time.monotonic()
    try:
        summary = _summary(job)
    except Interrupted as error:
        return Outcome("stopped", reason=str(error), signal=error.signal)
    except ResidaptError as error:
        return Outcome("failed", reason=str(error), seconds=time.monotonic() - started)
    return outcome_of(summary, job.score, time.monotonic() - started)


def outcome_of(summary: RunSummary, score: str, seconds: float = 0.0) -> Outcome:
    """The outcome of a finished run; a network that the guard finds worse than the source network does not count."""
    before, after = summary.scores.get(score, (math.nan, math.nan))
    if not math.isfinite(after):
        return Outcome("failed", reason=f"the score {score} cannot be computed on this data", seconds=seconds)
    if summary.verdict.helped is False:
        return Outcome("rejected", after, before, reason="; ".join(summary.verdict.reasons), seconds=seconds)
    return Outcome("scored", after, before, seconds=seconds)


def _summary(job: TrialJob) -> RunSummary:
    run = RunDirectory(job.out)
    if run.summary.exists():
        return read_summary(run.summary)
    begun = run.config.is_file()
    if not begun and job.out.exists():
        shutil.rmtree(job.out)  # stopped before there was anything to continue
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
        outputs=job.outputs,
    )
    return run_request(request).summary


def _check_folders(job: TrialJob) -> None:
    """A machine that does not see the study or the data is no fault of the trial: the whole search ends."""
    host = socket.gethostname()
    if not job.out.parent.is_dir():
        raise DataError(
            f"the study's folder '{job.out.parent}' does not exist on {host}. Use a file system that all machines "
            "mount at the same path."
        )
    for place in (job.config.data.source, job.config.data.target):
        if place is not None and not Path(place).is_dir():
            raise DataError(f"the folder '{place}' does not exist on {host}. Every machine needs the data there.")
