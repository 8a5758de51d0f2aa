"""The engine of one machine: this process, or several that are started for it."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from typing import Any

import torch

from residapt.errors import TrainingError
from residapt.parallel.engines import R, T, Task, WorkEngine, WorkerLostError

PATIENCE = 5.0
"""Seconds in which a worker may end by itself when it is asked to."""


class LocalEngine(WorkEngine):
    """``jobs`` processes with one thread each; a single one is this process itself."""

    def __init__(self, jobs: int = 1) -> None:
        self.jobs = jobs
        self._idle: list[_Worker] = []
        self._busy: dict[Connection, _Worker] = {}

    @property
    def width(self) -> int:
        """As many as were asked for."""
        return self.jobs

    def map(
        self,
        function: Callable[[T], R],
        items: Iterable[T],
        *,
        name: Callable[[T], str] = str,
        on_retry: Callable[[str], None] = lambda text: None,
    ) -> Iterator[tuple[T, R]]:
        """Each item with its result; with one job nothing is started, and an error is raised at once."""
        if self.jobs > 1:
            yield from super().map(function, items, name=name, on_retry=on_retry)
            return
        for item in items:
            yield item, function(item)

    def submit(self, function: Callable[[T], R], task: Task[T]) -> Connection:
        """Give the work to an idle worker, or to a new one."""
        worker = self._idle.pop() if self._idle else _Worker()
        worker.give(function, task.item)
        self._busy[worker.connection] = worker
        return worker.connection

    def wait(self, handles: Sequence[Connection]) -> list[Connection]:
        """Those with an answer, or with nobody at the other end any more."""
        return [found for found in wait_for(handles) if isinstance(found, Connection)]

    def result(self, handle: Connection) -> Any:
        """The answer; the worker is free then."""
        worker = self._busy.pop(handle)
        answer = worker.answer()
        self._idle.append(worker)
        if isinstance(answer, _Raised):
            raise answer.error from _TheirTraceback(answer.text)
        return answer

    def close(self) -> None:
        """End all workers."""
        workers = (*self._idle, *self._busy.values())
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.end()
        self._idle, self._busy = [], {}


class _TheirTraceback(Exception):  # noqa: N818  (it is shown as the cause of an error)
    """Where in the other process an exception was raised, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class _Raised:
    """An exception as an answer."""

    def __init__(self, error: Exception) -> None:
        self.text = "".join(traceback.format_exception(error))
        try:
            pickle.loads(pickle.dumps(error))  # our own, just made: not a file
            self.error = error
        except Exception:  # whatever an exception of somebody else's class may do
            self.error = TrainingError(f"{type(error).__name__}: {error}")


class _Worker:
    """A process that does one piece of work after the other."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would inherit torch's threads half way
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def give(self, function: Callable[[Any], Any], item: Any) -> None:
        """Begin; a worker that has died in the meantime is noticed by whoever waits for the answer."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send((function, item))

    def answer(self) -> Any:
        """What came back."""
        try:
            return self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.end()
            code = self.process.exitcode
            how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
            raise WorkerLostError(f"its process ended with {how}.") from None

    def end(self) -> None:
        """Wait for the process, not for long."""
        self.process.join(PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _serve(connection: Connection) -> None:
    """What a worker does: answer until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one ends the others
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    while True:
        try:
            function, item = connection.recv()
        except (EOFError, OSError):
            return
        try:
            answer = function(item)
        except Exception as error:
            answer = _Raised(error)
        connection.send(answer)


def _end_with_parent() -> None:
    """Nobody waits for the answer of a worker whose parent was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)
