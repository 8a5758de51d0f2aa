"""The pool of many machines: a Ray cluster (extra ``ray``)."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from residapt.errors import ConfigError, TrainingError, first_line
from residapt.parallel.pool import Pool, R, T, WorkerLostError, call_in_worker, limit_threads


def require_ray() -> Any:
    """The module, or an error that names the extra."""
    try:
        import ray
    except ImportError:
        raise ConfigError("--engine ray needs the package ray: pip install 'residapt[ray]'.") from None
    return ray


class RayPool(Pool):
    """Workers of a Ray cluster, with one processor and one thread each.

    Without an address a cluster is started on this machine, and ended afterwards.
    """

    def __init__(self, *, jobs: int | None = None, address: str | None = None) -> None:
        self._ray, self.jobs, self.address = require_ray(), jobs, address
        self._started = False
        self._running: dict[Future[Any], Any] = {}
        """Ray's reference of each call."""

    def __enter__(self) -> RayPool:
        """Join the cluster, or start one; one that this program has joined already is used as it is."""
        if not self._ray.is_initialized():
            self._start()
            self._started = True
        self._call = self._ray.remote(num_cpus=1, max_retries=0)(_call)
        return self

    def _start(self) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody has agreed to send statistics
        os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's 15 would starve the runs beside any other work
        new = {"num_cpus": self.jobs or os.cpu_count(), "include_dashboard": False} if self.address is None else {}
        try:
            self._ray.init(address=self.address or "local", log_to_driver=False, logging_level=logging.ERROR, **new)
        except (ConnectionError, ValueError, RuntimeError, OSError) as error:
            place = "on this machine" if self.address is None else f"at '{self.address}'"
            raise ConfigError(
                f"cannot use a Ray cluster {place}: {first_line(error)} Start one with 'ray start --head', and give "
                "its address."
            ) from None

    @property
    def width(self) -> int:
        """The requested number of jobs, or of processors in the cluster at present."""
        return self.jobs or max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def submit(self, function: Callable[[T], R], item: T, name: str) -> Future[R]:
        """Queue the call; Ray finds a machine, where its process shows ``name``."""
        reference = self._call.options(name=name).remote(function, item)
        future: Future[R] = reference.future()
        self._running = {call: ref for call, ref in self._running.items() if not call.done()}
        self._running[future] = reference
        return future

    def error_of(self, error: BaseException) -> BaseException:
        """A function's own exception as it was raised on the other machine; a lost worker, machine or cluster."""
        errors = self._ray.exceptions
        if isinstance(error, errors.RayTaskError):
            cause: BaseException = error.cause
            cause.__cause__ = error  # its text has the traceback of the other process
            return cause
        lost = (errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError, errors.ObjectLostError)
        if isinstance(error, lost):
            return WorkerLostError(f"its Ray worker died: {first_line(error)}")
        if isinstance(error, errors.RayError):
            return TrainingError(
                f"the Ray cluster failed: {first_line(error)} Run the same command again when it works; finished work "
                "is not repeated."
            )
        return error

    def close(self) -> None:
        """Stop the calls that are running, and the cluster if it was started here."""
        for reference in self._running.values():
            with suppress(Exception):  # nothing is left to stop in a cluster that has gone
                self._ray.cancel(reference, force=True)
        self._running.clear()
        if self._started:
            self._ray.shutdown()
            self._started = False


def _call(function: Callable[[T], R], item: T) -> R:
    """What a worker does."""
    limit_threads()
    return call_in_worker(function, item)
