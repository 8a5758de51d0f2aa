"""Batches of the next steps, prepared by threads while the present one trains.

A batch is a pure function of the step, so it does not matter who prepares it, or when: training is the same, bit for
bit, with any number of threads and with none, and there is nothing to save in a checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from residapt.data.batches import Batch
from residapt.data.domains import DomainPair, Images, parts_of

MOST = 4
"""Threads, unless another number is set."""


class Prefetcher:
    """Prepared batches by step.

    Args:
        make: Prepares the batch of a step; called from several threads.
        workers: Threads; 0 prepares each batch when it is needed.
        last: There are no batches from this step on.
    """

    def __init__(self, make: Callable[[int], Batch], workers: int, last: int) -> None:
        self.make, self.workers, self.last = make, workers, last
        self._waiting: dict[int, Future[Batch]] = {}
        self._pool: ThreadPoolExecutor | None = None

    def take(self, step: int) -> Batch:
        """The batch of a step; those of the next steps are begun."""
        if not self.workers:
            return self.make(step)
        wanted = range(step, max(min(step + 1 + self.workers, self.last), step + 1))
        for other in set(self._waiting) - set(wanted):  # after going back, or on
            self._waiting.pop(other).cancel()
        pool = self._pool = self._pool or ThreadPoolExecutor(self.workers, "residapt-batches")
        for number in wanted:
            if number not in self._waiting:
                self._waiting[number] = pool.submit(self.make, number)
        return self._waiting.pop(step).result()

    def restart(self, last: int) -> None:
        """Prepare anew what was begun, since batches are others now, or end at another step."""
        self.last = last
        for future in self._waiting.values():
            future.cancel()
        self._waiting.clear()

    def wait(self) -> None:
        """Until all that was begun is prepared."""
        for future in list(self._waiting.values()):
            future.exception()

    def close(self) -> None:
        """End the threads; a batch that was begun is finished first."""
        pool, self._pool = self._pool, None
        self._waiting.clear()
        if pool is not None:
            pool.shutdown(cancel_futures=True)


def workers_for(pair: DomainPair, accelerator: bool) -> int:
    """Threads that prepare batches: as set, or as many as are of use.

    Tensors in memory on a CPU are as quick to take as to hand over. Data sets whose rows draw from torch's own
    generator have to be read in the thread that trains, unless they have worker processes.
    """
    parts = [pair.source.images, pair.target, *([] if pair.few is None else [pair.few.images])]
    if not all(_allowed(images) for images in parts):
        return 0
    if pair.workers is not None:
        return pair.workers
    of_use = accelerator or any(_slow(images) for images in parts)
    return min(MOST, os.cpu_count() or 1) if of_use else 0


def _slow(images: Images) -> bool:
    return any(getattr(part, "prefetch", False) for part in parts_of(images))


def _allowed(images: Images) -> bool:
    return all(getattr(part, "threads", True) for part in parts_of(images))
