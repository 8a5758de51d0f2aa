"""The engine of many machines: Ray (extra ``ray``)."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from residapt.errors import ConfigError, ResidaptError, TrainingError
from residapt.parallel.engines import R, T, Task, WorkEngine, WorkerLostError


def require_ray() -> Any:
    """The module, or an error that names the extra."""
    try:
        import ray
    except ImportError:
        raise ConfigError("--engine ray needs a package: pip install 'residapt[ray]'.") from None
    return ray


class RayEngine(WorkEngine):
    """Workers of a Ray cluster, one processor and one thread each.

    Used as a context. Without an address a cluster is started on this machine, and ended afterwards.
    """

    def __init__(self, *, jobs: int | None = None, address: str | None = None) -> None:
        self._ray, self.jobs, self.address = require_ray(), jobs, address
        self._owned = False
        self._running: set[Any] = set()

    def __enter__(self) -> RayEngine:
        """Join the cluster, or start one; one that this program has joined already is used as it is."""
        if not self._ray.is_initialized():
            self._start(self.address)
            self._owned = True
        self._work = self._ray.remote(num_cpus=1, max_retries=0)(_work)
        return self

    def _start(self, address: str | None) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody was asked whether to report anything
        os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's 15 would starve the runs beside any other work
        local = {"num_cpus": self.jobs or os.cpu_count(), "include_dashboard": False} if address is None else {}
        try:
            self._ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **local)
        except (ConnectionError, ValueError, RuntimeError, OSError) as error:
            place = "on this machine" if address is None else f"at '{address}'"
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise ConfigError(
                f"no Ray cluster can be used {place}: {first} Start one with 'ray start --head', and give its address."
            ) from None

    @property
    def width(self) -> int:
        """As many as were asked for, or as the cluster has processors now."""
        return self.jobs or max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def submit(self, function: Callable[[T], R], task: Task[T]) -> Any:
        """Queue the work; Ray finds the machine. Its process shows the name of the work."""
        handle = self._work.options(name=task.name).remote(function, task.item)
        self._running.add(handle)
        return handle

    def wait(self, handles: Sequence[Any]) -> list[Any]:
        """The first that is done."""
        done, _ = self._ray.wait(list(handles), num_returns=1)
        return list(done)

    def result(self, handle: Any) -> Any:
        """The result, with exceptions as they were raised on the other machine."""
        self._running.discard(handle)
        errors = self._ray.exceptions
        try:
            return self._ray.get(handle)
        except errors.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, ResidaptError):
                raise cause from None
            raise
        except (errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError, errors.ObjectLostError) as e:
            first = (str(e).strip().splitlines() or [type(e).__name__])[0]
            raise WorkerLostError(f"its Ray worker died: {first}") from None
        except errors.RayError as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise TrainingError(
                f"the Ray cluster failed: {first} Run the same command again when it works: what is done is not "
                "repeated."
            ) from error

    def close(self) -> None:
        """Stop what is running, and the cluster if it is ours."""
        for handle in self._running:
            with suppress(Exception):  # a cluster that has gone has nothing left to stop
                self._ray.cancel(handle, force=True)
        self._running.clear()
        if self._owned:
            self._ray.shutdown()


def _work(function: Callable[[Any], Any], item: Any) -> Any:
    """What a worker does."""
    import torch

    torch.set_num_threads(1)
    return function(item)
