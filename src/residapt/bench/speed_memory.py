"""Peak memory of a step, each variant in a process of its own."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch

from residapt.bench.speed_cases import STEPS, find_case

_STEPS = 3


def peak_memory(case: str, variant: str) -> int:
    """Bytes that building and running a variant adds to the peak of a fresh process."""
    # Not a fork: a child that shares this process's memory would begin at its peak.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measure, case, variant).result()


def _measure(name: str, variant: str) -> int:
    case = find_case(name)
    torch.set_num_threads(case.threads)
    before = _peak()
    step = STEPS[variant](case)
    for _ in range(_STEPS):
        step()
    return _peak() - before


def _peak() -> int:
    """Largest resident set so far, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # ru_maxrss would begin with the parent's value, which Linux hands down through exec.
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        return int(lines["VmHWM"].split()[0]) * 1024
    import resource  # late: it does not exist on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
