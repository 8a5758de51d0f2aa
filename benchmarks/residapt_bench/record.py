"""Records of finished runs: typed, one JSON object a line; tables and figures are made from them alone."""

from __future__ import annotations

import fcntl
import os
import platform
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import ValidationError

from residapt.errors import DataError
from residapt.settings import Settings
from residapt.version import __version__
from residapt_bench.plan import RecordedPlan

VERSION = 1
"""Of the format."""
Ranks = dict[str, tuple[int, int]]


class Score(Settings):
    """What a run came to on one labelled set."""

    accuracy: float
    """Per cent."""
    protocol: Literal["transductive", "held-out"] = "held-out"
    """Whether the images were seen in training, without labels."""
    average_precision: float | None = None
    """Of the positive class, where there is one."""
    positives: int | None = None
    """Images of the positive class."""
    negatives: int | None = None
    """Images of the others."""


class BeforeAfter(Settings):
    """Ranks of every layer, before and after."""

    before: Ranks = {}
    """When training began."""
    after: Ranks = {}
    """When it ended."""


class Sizes(Settings):
    """Numbers of parameters, before and after."""

    before: dict[str, int] = {}
    """By group in training, and of what is deployed."""
    after: dict[str, int] = {}
    """The same at the end."""


class DataFiles(Settings):
    """What was read."""

    official: bool = False
    """Whether every file was, byte for byte, the published one."""
    files: tuple[str, ...] = ()
    """Names and checksums."""


class Environment(Settings):
    """What a run was executed with."""

    residapt: str
    """Version of the library."""
    torch: str
    """Version of PyTorch."""
    python: str
    """Version of Python."""
    commit: str = "unknown"
    """Commit of the repository that tracks this package."""
    threads: str = ""
    """Threads of PyTorch."""

    @classmethod
    def here(cls) -> Environment:
        """Of this process."""
        return cls(
            residapt=__version__,
            torch=torch.__version__,
            python=platform.python_version(),
            commit=commit_of(Path(__file__)),
            threads=str(torch.get_num_threads()),
        )


class Record(Settings):
    """One finished run."""

    version: Literal[1] = 1
    """Of the format."""
    key: str
    """The plan's key."""
    plan: RecordedPlan
    """What was run."""
    scores: dict[str, Score] = {}
    """By scored set; the first one is the reported one."""
    selection: Literal["last iterate", "average at the end"] = "last iterate"
    """Which weights were scored."""
    source_sha256: str | None = None
    """Hash of the source network that the run started from."""
    ranks: BeforeAfter = BeforeAfter()
    """Ranks of the transforms."""
    parameters: Sizes = Sizes()
    """Parameters in training and of what is deployed."""
    label_free: dict[str, tuple[float, float]] = {}
    """Label-free scores of the source network and of the adapted one; settings may be chosen by them."""
    predicted: str = ""
    """Predicted classes of a fixed part of the unlabelled target images, a digit for each."""
    curve: tuple[dict[str, float], ...] = ()
    """Accuracy and label-free scores along the run, for the record only."""
    prior: dict[str, Any] | None = None
    """Assumed class frequencies, beside the true ones."""
    rounds: tuple[dict[str, Any], ...] = ()
    """Trainings of a run that was repeated to find the class frequencies."""
    stream_mmd: float | None = None
    """Squared MMD between the outputs of both streams."""
    labelled: int = 0
    """Labelled target images of the positive class."""
    seconds: float = 0.0
    """Of training, by the wall clock."""
    peak_memory_mb: int = 0
    """Largest resident set of the process so far."""
    data: DataFiles = DataFiles()
    """What was read."""
    environment: Environment
    """What the run was executed with."""

    @property
    def target(self) -> float:
        """The reported accuracy in per cent."""
        return next(iter(self.scores.values())).accuracy

    def precision(self, name: str) -> float:
        """Average precision on one of the scored sets."""
        found = self.scores[name].average_precision
        if found is None:
            raise DataError(f"record '{self.key}' has no average precision on '{name}'.")
        return found


def read_records(paths: Iterable[Path]) -> list[Record]:
    """All records of the files; a last line that an interruption cut off is left out, other damage is an error."""
    records = []
    for path in paths:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
        for number, line in enumerate(lines, 1):
            try:
                records.append(Record.model_validate_json(line))
            except ValidationError as error:
                if number == len(lines) and error.errors()[0]["type"] == "json_invalid":
                    continue
                first = error.errors()[0]
                where = ".".join(str(part) for part in first["loc"])
                raise DataError(
                    f"{path}, line {number} is not a record of version {VERSION}: {where} {first['msg']}. Remove the "
                    "line."
                ) from None
    return records


def append_record(path: Path, record: Settings) -> None:
    """Add one line, safe against other processes and against an earlier line without an end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0, os.SEEK_END)
        if file.tell() > 0:
            file.seek(file.tell() - 1)
            if file.read(1) != "\n":
                file.write("\n")
        file.write(record.model_dump_json() + "\n")
        file.flush()
        os.fsync(file.fileno())


def commit_of(file: Path) -> str:
    """The commit of the repository that tracks ``file``; a repository that merely surrounds it does not count."""
    here = {"capture_output": True, "text": True, "check": True, "cwd": file.parent}
    try:
        subprocess.run(["git", "ls-files", "--error-unmatch", file.name], **here)  # type: ignore[call-overload]
        return str(subprocess.run(["git", "rev-parse", "HEAD"], **here).stdout.strip())  # type: ignore[call-overload]
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
