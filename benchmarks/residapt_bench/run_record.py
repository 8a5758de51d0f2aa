"""What the records of all benchmarks have in common: the plan, what training cost, and what it was run with."""

from __future__ import annotations

import platform
import resource
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch

from residapt.data.domains import Images
from residapt.methods import MethodConfig
from residapt.methods.parameters import count_parameters
from residapt.methods.rounds import Round, in_rounds
from residapt.train import Method, TrainConfig, Trainer
from residapt.version import __version__
from residapt_bench.resumable import AnyPlan


class TrainedPlan(AnyPlan, Protocol):
    """A run of a method with settings."""

    @property
    def settings(self) -> MethodConfig:
        """The method's."""
        ...


def train_and_record(
    plan: TrainedPlan, train: TrainConfig, make: Callable[[Round], Trainer], target: Images
) -> tuple[Method, dict[str, Any]]:
    """Train to the end, whose weights count; gives the method and the part of the record that needs no scores.

    ``make`` builds the trainer of a round, always from the same network; ``target`` are unlabelled images to look at.
    """
    started = time.monotonic()
    started_with: list[_Size] = []

    def run(turn: Round) -> Method:
        trainer = make(turn)
        started_with.append(_Size(trainer.method.two.ranks(), _parameters(trainer.method)))
        return trainer.run()

    method, story = in_rounds(Round(plan.settings, train), run, target)
    last = started_with[-1]
    return method, {
        "key": plan.key(),
        "plan": plan.model_dump(mode="json"),
        "selection": "last iterate" if method.two.average is None else "average at the end",
        "ranks": {"before": last.ranks, "after": method.two.ranks()},
        "parameters": {"before": last.parameters, "after": _parameters(method)},
        **({"rounds": story} if len(story) > 1 else {}),
        "seconds": round(time.monotonic() - started, 1),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "environment": environment(),
    }


class _Size(NamedTuple):
    """Ranks and parameters before a training."""

    ranks: dict[str, tuple[int, int]]
    parameters: dict[str, int]


def _parameters(method: Method) -> dict[str, int]:
    """Parameters in training by group, and of what is deployed."""
    return asdict(count_parameters(method))


def environment() -> dict[str, str]:
    """Versions and commit, so that a record can be traced."""
    return {
        "residapt": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "commit": commit_of(Path(__file__)),
        "threads": str(torch.get_num_threads()),
    }


def commit_of(file: Path) -> str:
    """The commit of the repository that tracks ``file``; a repository that merely surrounds it does not count."""
    here = {"capture_output": True, "text": True, "check": True, "cwd": file.parent}
    try:
        subprocess.run(["git", "ls-files", "--error-unmatch", file.name], **here)  # type: ignore[call-overload]
        return str(subprocess.run(["git", "rev-parse", "HEAD"], **here).stdout.strip())  # type: ignore[call-overload]
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
