"""Call a function on many items, several at a time: what all pools have in common, and which there are."""

from __future__ import annotations

import os
import pickle
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from itertools import islice
from typing import Generic, TypeVar

from residapt.errors import ConfigError, TrainingError

T = TypeVar("T")
R = TypeVar("R")
ATTEMPTS = 3
"""How often an item is started before the deaths of its workers count as its own fault."""
WAKE_SECONDS = 1.0
"""Ctrl-C just before a wait for a lock is noticed only after that wait, so that none may be endless."""
ENGINES = ("local", "ray")
"""Names of the pools, as on the command line."""


class WorkerLostError(Exception):
    """The process that worked on an item died; that alone says nothing about the item."""


@dataclass(frozen=True)
class _Call(Generic[T]):
    """An item that a worker is busy with."""

    item: T
    name: str
    attempt: int = 1


class Pool(ABC):
    """Workers that call a function on one item each. Leaving its context ends them all at once."""

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    @abstractmethod
    def width(self) -> int:
        """How many items can be worked on at a time."""

    @abstractmethod
    def submit(self, function: Callable[[T], R], item: T, name: str) -> Future[R]:
        """Start a call; there is room for it."""

    @abstractmethod
    def error_of(self, error: BaseException) -> BaseException:
        """The error of a call as :meth:`map` raises it; :class:`WorkerLostError` if the call's process died."""

    @abstractmethod
    def close(self) -> None:
        """End all workers at once, whatever they are doing."""

    def map(
        self,
        function: Callable[[T], R],
        items: Iterable[T],
        *,
        name: Callable[[T], str] = str,
        on_retry: Callable[[str], None] = lambda message: None,
    ) -> Iterator[tuple[T, R]]:
        """Yield each item with ``function(item)``, in order of completion.

        The next item is requested only when there is room for it and all results so far have been yielded. An item
        whose worker dies is started again, at most ``ATTEMPTS`` times in all. After an exception no more items are
        started; it is raised when the calls that are running have ended.
        """
        remaining = iter(items)
        running: dict[Future[R], _Call[T]] = {}
        failure: BaseException | None = None

        def start(call: _Call[T]) -> None:
            running[self.submit(function, call.item, call.name)] = call

        while True:
            if failure is None:
                for item in islice(remaining, self.width - len(running)):
                    start(_Call(item, name(item)))
            if not running:
                break
            for future in wait(running, WAKE_SECONDS, return_when=FIRST_COMPLETED).done:
                call = running.pop(future)
                raised = future.exception()
                if raised is None:
                    yield call.item, future.result()
                    continue
                error = self.error_of(raised)
                if isinstance(error, WorkerLostError) and call.attempt < ATTEMPTS:
                    on_retry(f"{call.name}: {error} Starting it again (attempt {call.attempt + 1} of {ATTEMPTS}).")
                    start(replace(call, attempt=call.attempt + 1))
                else:
                    failure = failure or (_given_up(call, error) if isinstance(error, WorkerLostError) else error)
        if failure is not None:
            raise failure


def _given_up(call: _Call[T], error: WorkerLostError) -> TrainingError:
    return TrainingError(
        f"{call.name}: its worker process died {ATTEMPTS} times: {error} Check whether there is enough memory, and run "
        "the same command again; finished work is not repeated."
    )


def make_engine(name: str, *, jobs: int | None = None, address: str | None = None) -> Pool:
    """The pool called ``name`` with ``jobs`` workers; ``address`` of a Ray cluster that is running already."""
    if name not in ENGINES:
        raise ConfigError(f"--engine {name!r}: choose one of {', '.join(ENGINES)}.")
    if jobs is not None and jobs < 1:
        raise ConfigError(f"--jobs must be 1 or more, got {jobs}.")
    if name == "ray":
        from residapt.parallel.ray_pool import RayPool

        return RayPool(jobs=jobs, address=address)
    if address is not None:
        raise ConfigError(f"--address {address!r} needs a Ray cluster: add --engine ray.")
    from residapt.parallel.local_pool import LocalPool

    return LocalPool(jobs or 1)


def limit_threads() -> None:
    """One thread for the numerical libraries of this process, whether torch has been imported or not."""
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def call_in_worker(function: Callable[[T], R], item: T) -> R:
    """``function(item)``, with exceptions that another process can read.

    One that pickle cannot build again would look there as if this process had died.
    """
    try:
        return function(item)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))  # our own, just made: not a file
        except Exception:  # whatever the code of somebody else's exception does
            raise TrainingError(f"{type(error).__name__}: {error}") from error
        raise
