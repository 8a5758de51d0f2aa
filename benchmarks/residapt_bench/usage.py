"""What a program takes from its start to its end, beside what others use of the machine meanwhile."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from residapt.settings import Settings


class Usage(Settings):
    """Time and memory of a program."""

    seconds: float
    """From the start of the process to its end."""
    processor_seconds: float
    """Of one processor that it was given."""
    others: float | None
    """Processors that other programs used meanwhile, on average, where the system tells it."""
    peak_memory_mb: int
    """Largest resident set."""
    cores: int = os.cpu_count() or 1
    """Of the machine."""


def run_measured(command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> tuple[int, Usage]:
    """Run a program, whose output goes into ``log``; its exit code, and what it took."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as text:
        busy, begin = _busy_seconds(), time.monotonic()
        process = subprocess.Popen(command, stdout=text, stderr=text, env={**os.environ, **(environment or {})})
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds, busy_now = time.monotonic() - begin, _busy_seconds()
    own = used.ru_utime + used.ru_stime
    others = None if busy is None or busy_now is None else max(0.0, (busy_now - busy - own) / seconds)
    usage = Usage(
        seconds=round(seconds, 1),
        processor_seconds=round(own, 1),
        others=None if others is None else round(others, 2),
        peak_memory_mb=round(used.ru_maxrss / 1024),
    )
    return process.returncode, usage


def _busy_seconds() -> float | None:
    """Processor seconds of all programs since the machine was started, where the system tells them."""
    try:
        line = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0].split()
    except OSError:
        return None
    user, nice, system, _idle, _wait, irq, softirq = map(int, line[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
