"""Several processes of one machine that train together, forked from one that has imported everything.

Processes that are started apart each have memory of their own for what the libraries have built up while they were
imported, which is more than a small training takes. Forked ones share it until they change it.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import socket
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import FrameType

from residapt.errors import ConfigError

PATIENCE = 20.0
"""Seconds that the others have to end by themselves when one has failed."""


def fork_processes(count: int, modules: Sequence[str] = ()) -> None:
    """Go on in ``count`` processes that form a group; this one waits for them and exits as they do.

    It returns in the new processes only. Call it before the first tensor is computed: threads and devices do not
    outlive a fork.

    Args:
        count: How many processes train together.
        modules: What all of them need; it is imported before they are forked.
    """
    if count < 1:
        raise ConfigError(f"the number of processes must be 1 or more, got {count}.")
    if sys.platform != "linux":
        raise ConfigError(f"--processes works on Linux; here, start them with: torchrun --nproc_per_node {count}.")
    for name in ("torch", "accelerate", *modules):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # otherwise the next collection writes to every object, and nothing stays shared
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
    os.environ.update({name: str(value) for name, value in place.items()})
    sys.stdout.flush()
    sys.stderr.flush()
    outputs = [os.memfd_create(f"output of {rank}") for rank in range(count)]
    children: list[int] = []
    for rank, output in enumerate(outputs):
        child = os.fork()
        if child == 0:
            _become(rank, count, output)
            return
        children.append(child)
    _leave(children, outputs)


def _become(rank: int, count: int, output: int) -> None:
    import torch

    os.setpgid(0, 0)  # so that Ctrl-C reaches it once, from the process that waits
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    if "OMP_NUM_THREADS" not in os.environ:
        threads = max(1, (os.cpu_count() or 1) // count)
        torch.set_num_threads(threads)
        os.environ["OMP_NUM_THREADS"] = str(threads)  # accelerate asks for it
    if rank:  # only the first one speaks, unless another fails alone
        os.dup2(output, 1)
        os.dup2(output, 2)


def _leave(children: list[int], outputs: list[int]) -> None:
    """Pass signals on, wait, and exit with the code of the first process that failed."""

    def forward(number: int, frame: FrameType | None) -> None:
        _signal(children, number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, forward)
    codes: dict[int, int] = {}
    deadline = float("inf")
    while len(codes) < len(children):
        for child in children:
            if child not in codes and (ended := os.waitpid(child, os.WNOHANG))[0]:
                codes[child] = os.waitstatus_to_exitcode(ended[1])
        if any(codes.values()):
            deadline = min(deadline, time.monotonic() + PATIENCE)
        if time.monotonic() > deadline:
            _signal([child for child in children if child not in codes], signal.SIGKILL)
        time.sleep(0.02)
    failed = next((child for child, code in codes.items() if code), children[0])
    code = codes[failed]
    if code != codes[children[0]]:
        with open(outputs[children.index(failed)], encoding="utf-8", errors="replace") as said:
            said.seek(0)
            sys.stderr.write(said.read())
    raise SystemExit(code if code >= 0 else 128 - code)


def _signal(processes: Iterable[int], number: int) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
