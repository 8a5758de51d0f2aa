"""The pool of one machine: this process alone, or several worker processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection, wait
from typing import Any

from residapt.parallel.pool import Pool, R, T, WorkerLostError, call_in_worker, limit_threads


class LocalPool(Pool):
    """``jobs`` worker processes with one thread each; with ``jobs=1`` everything runs in this process.

    An executor of the standard library does not say which of its workers died, so each worker has one of its own.
    """

    def __init__(self, jobs: int = 1) -> None:
        self.jobs = jobs
        self._context = multiprocessing.get_context("spawn")  # a fork would inherit torch's threads half way
        self._workers: dict[ProcessPoolExecutor, Future[Any]] = {}
        """Each worker with its latest call."""
        self._lifeline: tuple[Connection, Connection] | None = None
        """A pipe; workers end when something can be read from its first end, or this process has ended."""

    @property
    def width(self) -> int:
        """The number of workers."""
        return self.jobs

    def map(
        self,
        function: Callable[[T], R],
        items: Iterable[T],
        *,
        name: Callable[[T], str] = str,
        on_retry: Callable[[str], None] = lambda message: None,
    ) -> Iterator[tuple[T, R]]:
        """As in every pool; with one job nothing is started, and an exception is raised at once."""
        if self.jobs > 1:
            yield from super().map(function, items, name=name, on_retry=on_retry)
            return
        for item in items:
            yield item, function(item)

    def submit(self, function: Callable[[T], R], item: T, name: str) -> Future[R]:
        """Give the call to an idle worker, or to a new one."""
        for worker, latest in list(self._workers.items()):
            if not latest.done():
                continue
            try:
                self._workers[worker] = future = worker.submit(call_in_worker, function, item)
                return future
            except BrokenProcessPool:  # it died with its latest call, or after that
                del self._workers[worker]
        worker = self._new_worker()
        self._workers[worker] = future = worker.submit(call_in_worker, function, item)
        return future

    def error_of(self, error: BaseException) -> BaseException:
        """A broken executor is a dead worker; all else is the function's own."""
        if isinstance(error, BrokenProcessPool):
            return WorkerLostError("its worker process was killed or crashed.")
        return error

    def close(self) -> None:
        """End all workers."""
        if self._lifeline is not None:
            self._lifeline[1].send_bytes(b"end")
        for worker in self._workers:
            worker.shutdown(cancel_futures=True)
        for end in self._lifeline or ():
            end.close()
        self._workers, self._lifeline = {}, None

    def _new_worker(self) -> ProcessPoolExecutor:
        if self._lifeline is None:
            self._lifeline = self._context.Pipe(duplex=False)
        return ProcessPoolExecutor(1, self._context, _set_up_worker, (self._lifeline[0],))


def _set_up_worker(lifeline: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one ends the others
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    limit_threads()


def _end_with(lifeline: Connection) -> None:
    """End this process with its pool, or with the process that started it, even if that was killed."""
    wait([lifeline])  # nobody reads from it, so that all workers see the same
    os._exit(1)
