"""Peak memory of a step, each variant in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import torch

from residapt_bench.speed.cases import STEPS, SpeedCase, Step, find_case

_STEPS = 3


def peak_memory(case: str | SpeedCase, variant: str) -> int:
    """Bytes that building and running a variant adds to the peak of a fresh process."""
    found = find_case(case) if isinstance(case, str) else case
    return peak_of(partial(STEPS[variant], found), found.threads)


def peak_of(build: Callable[[], Step], threads: int) -> int:
    """Bytes that building and running a step adds to the peak of a fresh process; ``build`` goes there by pickle."""
    # Not a fork: a child that shares this process's memory would begin at its peak.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measure, build, threads).result()


def _measure(build: Callable[[], Step], threads: int) -> int:
    torch.set_num_threads(threads)
    before = peak_bytes()
    step = build()
    for _ in range(_STEPS):
        step()
    return peak_bytes() - before


def peak_bytes() -> int:
    """Largest resident set so far, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # ru_maxrss would begin with the parent's value, which Linux hands down through exec.
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        return int(lines["VmHWM"].split()[0]) * 1024
    import resource  # late: it does not exist on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
