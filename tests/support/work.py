"""Pieces of work for other processes, which import them by name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from residapt.errors import DataError, Interrupted


def square(number: int) -> int:
    return number * number


def die_once(place: Path) -> str:
    """Killed at the first attempt, done at the second."""
    if not (place / "died").exists():
        (place / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def always_die(place: Path) -> None:
    with (place / "attempts").open("a") as file:
        file.write("x")
    os.kill(os.getpid(), signal.SIGKILL)


def fail_or_work(place: Path) -> str:
    """One item fails; the other ends only after that."""
    if place.name == "odd":
        place.touch()
        raise DataError("one is odd.")
    until = time.monotonic() + 60
    while not place.with_name("odd").exists() and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.5)
    return "done"


def odd_exception(number: int) -> None:
    raise Interrupted("stopped", step=3)  # pickle cannot build it again
