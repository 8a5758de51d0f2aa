"""Functions for worker processes, which import them by name; none of them needs torch but the last."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from residapt.errors import DataError, Interrupted
from residapt.parallel.local_pool import LocalPool

LONG = 120.0
"""Seconds after which a test has failed."""


def square(number: int) -> int:
    return number * number


def count_attempt(place: Path) -> int:
    """Note that work on ``place`` begins, and give how often it has begun."""
    with place.open("a") as file:
        file.write("x")
    return attempts(place)


def attempts(place: Path) -> int:
    return len(place.read_text()) if place.exists() else 0


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + LONG
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError
        time.sleep(0.01)


def die_once_beside_another(place: Path) -> int:
    """The item ``victim`` is killed once, while ``neighbour`` is running; all count their attempts."""
    number = count_attempt(place)
    if place.name == "victim" and number == 1:
        wait_until(lambda: attempts(place.with_name("neighbour")) > 0)
        os.kill(os.getpid(), signal.SIGKILL)
    if place.name == "neighbour":
        wait_until(lambda: attempts(place.with_name("victim")) > 1)
    return number


def always_die(place: Path) -> None:
    count_attempt(place)
    os.kill(os.getpid(), signal.SIGKILL)


def fail_or_work(place: Path) -> str:
    """One item fails; the other ends only after that."""
    if place.name == "odd":
        place.touch()
        raise DataError("one is odd.")
    wait_until(place.with_name("odd").exists)
    time.sleep(0.2)
    return "done"


def raise_what_pickle_cannot_build(number: int) -> None:
    raise Interrupted("stopped", step=3)


def sleep_or_not(place: Path) -> int:
    """Gives the process; the item ``sleeper`` leaves it in its file and takes very long."""
    if place.name == "sleeper":
        place.with_name("pid").write_text(str(os.getpid()))
        place.with_name("pid").rename(place)
        time.sleep(2 * LONG)
    return os.getpid()


def torch_threads(_item: int) -> int:
    import torch

    return torch.get_num_threads()


if __name__ == "__main__":
    root = Path(sys.argv[1])
    with LocalPool(2) as pool:
        for _, pid in pool.map(sleep_or_not, [root / "quick", root / "sleeper"]):
            (root / "ready").write_text(str(pid))
