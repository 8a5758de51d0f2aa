"""Where the time of a run goes, by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

During = Callable[[str], AbstractContextManager[None]]
"""A context for a named piece of work, which is timed and shown to people."""


def unnoticed(name: str) -> AbstractContextManager[None]:
    """A context that does nothing, where nobody times or shows the work."""
    return nullcontext()


class Stopwatch:
    """Seconds of named parts. Time within an inner part counts there alone, so that the parts add up to the whole.

    Example:
        >>> from residapt.train.stopwatch import Stopwatch
        >>> watch = Stopwatch()
        >>> with watch.part("training"):
        ...     with watch.part("checks"):
        ...         pass
        >>> sorted(watch.seconds)
        ['checks', 'training']
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._open: list[str] = []
        self._since = 0.0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Everything within this context belongs to the part of this name."""
        self._count()
        self._open.append(name)
        try:
            yield
        finally:
            self._count()
            self._open.pop()

    def rounded(self) -> dict[str, float]:
        """The seconds until now, to the millisecond."""
        self._count()
        return {name: round(value, 3) for name, value in self.seconds.items()}

    def _count(self) -> None:
        now = time.monotonic()
        if self._open:
            self.seconds[self._open[-1]] = self.seconds.get(self._open[-1], 0.0) + now - self._since
        self._since = now
