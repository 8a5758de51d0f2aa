"""What the records of all benchmarks have in common: the plan, what training cost, and what it was run with."""

from __future__ import annotations

import platform
import resource
import subprocess
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from residapt.bench.resumable import AnyPlan
from residapt.methods.parameters import count_parameters
from residapt.train import Method, Trainer
from residapt.version import __version__


def train_and_record(plan: AnyPlan, trainer: Trainer) -> tuple[Method, dict[str, Any]]:
    """Train to the end, whose weights count; gives the method and the part of the record that needs no scores."""
    before, counts = trainer.method.two.ranks(), _parameters(trainer.method)
    started = time.monotonic()
    method = trainer.run()
    seconds = time.monotonic() - started
    return method, {
        "key": plan.key(),
        "plan": plan.model_dump(mode="json"),
        "selection": "last iterate" if method.two.average is None else "average at the end",
        "ranks": {"before": before, "after": method.two.ranks()},
        "parameters": {"before": counts, "after": _parameters(method)},
        "seconds": round(seconds, 1),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "environment": environment(),
    }


def _parameters(method: Method) -> dict[str, int]:
    """Parameters in training by group, and of what is deployed."""
    return asdict(count_parameters(method))


def environment() -> dict[str, str]:
    """Versions and commit, so that a record can be traced."""
    try:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        commit = "unknown"
    return {
        "residapt": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "commit": commit,
        "threads": str(torch.get_num_threads()),
    }
