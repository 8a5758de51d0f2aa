"""Many pieces of work, several at a time: what the engines have in common, and which there are.

An engine takes pieces of work one by one, as it has room for them, and gives back their results as they come. A worker
that dies is replaced and its piece of work done again, a bounded number of times. An exception ends the whole, but not
before the pieces under way have ended and given their results.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from residapt.errors import ConfigError, TrainingError

T = TypeVar("T")
R = TypeVar("R")
ATTEMPTS = 3
"""How often a piece of work is begun before its workers' deaths count as its own fault."""
ENGINES = ("local", "ray")
"""Names of the engines, as on the command line."""


class WorkerLostError(Exception):
    """The process that did a piece of work has died, which says nothing about the work yet."""


@dataclass(frozen=True)
class Task(Generic[T]):
    """A piece of work under way."""

    item: T
    name: str
    attempt: int = 1


class WorkEngine(ABC):
    """Several pieces of work at a time; use it as a context, which ends all workers."""

    def __enter__(self) -> WorkEngine:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    @abstractmethod
    def width(self) -> int:
        """How many pieces of work there is room for."""

    @abstractmethod
    def submit(self, function: Callable[[T], R], task: Task[T]) -> Any:
        """Begin a piece of work, and give a handle for it."""

    @abstractmethod
    def wait(self, handles: Sequence[Any]) -> Sequence[Any]:
        """Wait until at least one is done, and give those that are."""

    @abstractmethod
    def result(self, handle: Any) -> Any:
        """What a piece of work gave, or the exception it raised; WorkerLostError when its worker has died."""

    @abstractmethod
    def close(self) -> None:
        """End all workers at once, whatever they are doing."""

    def map(
        self,
        function: Callable[[T], R],
        items: Iterable[T],
        *,
        name: Callable[[T], str] = str,
        on_retry: Callable[[str], None] = lambda text: None,
    ) -> Iterator[tuple[T, R]]:
        """Each item with ``function(item)``, in the order in which they are done.

        The next item is asked for only when there is room for it and all results so far have been handed out.
        """
        waiting = iter(items)
        running: dict[Any, Task[T]] = {}
        failure: Exception | None = None
        while True:
            while failure is None and len(running) < self.width:
                item = next(waiting, None)
                if item is None:
                    break
                task = Task(item, name(item))
                running[self.submit(function, task)] = task
            if not running:
                break
            for handle in self.wait(list(running)):
                task = running.pop(handle)
                try:
                    result = self.result(handle)
                except WorkerLostError as error:
                    if task.attempt >= ATTEMPTS:
                        failure = failure or _given_up(task, error)
                        continue
                    on_retry(f"{task.name}: {error} It begins again ({task.attempt + 1} of {ATTEMPTS} attempts).")
                    again = Task(task.item, task.name, task.attempt + 1)
                    running[self.submit(function, again)] = again
                except Exception as error:
                    failure = failure or error
                else:
                    yield task.item, result
        if failure is not None:
            raise failure


def _given_up(task: Task[T], error: WorkerLostError) -> TrainingError:
    return TrainingError(
        f"{task.name} was given up: its worker died {ATTEMPTS} times ({error}). Look whether memory suffices, and run "
        "the same command again: what is done is not repeated."
    )


def make_engine(name: str, *, jobs: int | None = None, address: str | None = None) -> WorkEngine:
    """The engine of that name: ``jobs`` at a time; ``address`` of a Ray cluster that exists already."""
    if name not in ENGINES:
        raise ConfigError(f"--engine {name!r}: use one of {', '.join(ENGINES)}.")
    if jobs is not None and jobs < 1:
        raise ConfigError(f"jobs must be 1 or more, got {jobs}.")
    if name == "ray":
        from residapt.parallel.ray_engine import RayEngine

        return RayEngine(jobs=jobs, address=address)
    if address is not None:
        raise ConfigError(f"--address {address!r} is of a Ray cluster: add --engine ray.")
    from residapt.parallel.local_engine import LocalEngine

    return LocalEngine(jobs or 1)
