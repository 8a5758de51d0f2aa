"""Progress for people: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from residapt.train.callbacks import Callback, StepInfo
from residapt.train.method import Method

PLAIN_SECONDS = 10.0
"""Time between two plain lines, so that a log file stays readable."""


class ProgressBar(Callback):
    """What is happening, how long it will take, losses by name, domain accuracy and the sum of ranks."""

    def __init__(self, title: str, console: Console) -> None:
        self.title, self.console = title, console
        self._progress: Progress | None = None
        self._task = TaskID(0)
        self._started = self._printed = 0.0
        self._from = 0

    def on_start(self, method: Method, step: int, steps: int) -> None:
        """Open the bar."""
        self._started, self._from = time.monotonic(), step
        if not self.console.is_terminal:
            self.console.print(f"{self.title}: {steps - step} steps", markup=False, highlight=False)
            return
        columns = [
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed}/{task.total}"),
        ]
        self._progress = Progress(
            *columns,
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[state]}"),
            console=self.console,
        )
        self._task = self._progress.add_task(self.title, total=steps, completed=step, state="")
        self._progress.start()

    def on_step(self, method: Method, step: int) -> None:
        """Move the bar."""
        if self._progress is not None:
            self._progress.update(self._task, completed=step)

    def on_log(self, method: Method, info: StepInfo) -> None:
        """Show losses and ranks."""
        state = describe(info)
        if self._progress is not None:
            self._progress.update(self._task, state=state)
        elif time.monotonic() - self._printed >= PLAIN_SECONDS or info.step == info.steps:
            self._printed = time.monotonic()
            passed = self._printed - self._started
            left = passed / max(info.step - self._from, 1) * (info.steps - info.step)
            self.console.print(
                f"{self.title}: step {info.step}/{info.steps}, {passed:.0f} s, about {left:.0f} s left, {state}",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )

    def on_notice(self, method: Method, step: int, notice: str) -> None:
        """Show a note above the bar."""
        self.console.print(f"note: {notice}", markup=False, highlight=False, soft_wrap=True)

    def on_end(self, method: Method, step: int) -> None:
        """Close the bar."""
        self.close()

    def close(self) -> None:
        """Give the terminal back, also after an interruption."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def describe(info: StepInfo) -> str:
    """Losses by name, then the sum of all ranks."""
    words = [f"{name} {value:.3g}" for name, value in info.values.items() if name != "total"]
    if info.ranks:
        words.append(f"ranks {sum(left + right for left, right in info.ranks.values())}")
    return ", ".join(words)
