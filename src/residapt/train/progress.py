"""Progress for people: a bar and the present losses on a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from weakref import WeakKeyDictionary

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from residapt.train.callbacks import Callback, StepInfo
from residapt.train.method import Method

_log = logging.getLogger(__name__)
PLAIN_SECONDS = 10.0
"""Time between two plain lines, so that a log file stays readable."""
NARROWEST_BAR = 10


class ProgressBar(Callback):
    """What is happening, how long it will take, losses by name, domain accuracy and the sum of ranks.

    A terminal has two lines: steps, bar and time left on the first, which fit into 60 columns; as many numbers as
    fit on the second.
    """

    def __init__(self, title: str, console: Console) -> None:
        self.title, self.console = title, console
        self._lines: _TwoLines | None = None
        self._started = self._printed = 0.0
        self._from = 0

    def on_start(self, method: Method, step: int, steps: int) -> None:
        """Open the bar."""
        self._started, self._from = time.monotonic(), step
        _open_bars[self.console] = self
        if not self.console.is_terminal:
            _print(self.console, f"{self.title}: {steps - step} steps")
            return
        self._lines = _TwoLines(self.title, self.console, step, steps)
        self._lines.start()

    def on_length(self, method: Method, step: int, steps: int) -> None:
        """Make the bar longer or shorter."""
        if self._lines is not None:
            self._lines.update(self._lines.bar, total=steps)

    def on_step(self, method: Method, step: int) -> None:
        """Move the bar."""
        if self._lines is not None:
            self._lines.update(self._lines.bar, completed=step)

    def on_log(self, method: Method, info: StepInfo) -> None:
        """Show losses and ranks."""
        numbers = describe(info)
        if self._lines is not None:
            self._lines.numbers = numbers
        elif time.monotonic() - self._printed >= PLAIN_SECONDS or info.step == info.steps:
            self._printed = time.monotonic()
            passed = self._printed - self._started
            left = passed / max(info.step - self._from, 1) * (info.steps - info.step)
            state = f"step {info.step}/{info.steps}, {passed:.0f} s, about {left:.0f} s left"
            _print(self.console, ", ".join([f"{self.title}: {state}", *numbers]))

    def on_note(self, method: Method, step: int, note: str) -> None:
        """Show a note above the bar."""
        show_message(self.console, f"note: {note}", level=logging.WARNING)

    def on_end(self, method: Method, step: int) -> None:
        """Close the bar."""
        self.close()

    def close(self) -> None:
        """Give the terminal back, also after an interruption."""
        if _open_bars.get(self.console) is self:
            del _open_bars[self.console]
        if self._lines is not None:
            self._lines.stop()
            self._lines = None

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Show ``name`` in place of the numbers; see :func:`phase`."""
        if self._lines is None:
            yield
            return
        before, self._lines.phase = self._lines.phase, name
        self._lines.refresh()
        try:
            yield
        finally:
            if self._lines is not None:
                self._lines.phase = before


_open_bars: WeakKeyDictionary[Console, ProgressBar] = WeakKeyDictionary()
"""The bar of each console: a console has one place for it."""


@contextmanager
def phase(name: str, console: Console) -> Iterator[None]:
    """Show by name what is being done besides steps, such as "computing scores", until the block ends.

    Under a bar the name takes the place of the numbers. Otherwise a terminal shows it with a spinner, and a log has a
    line. What happens many times during training is not repeated in a log.

    Args:
        name: What is being done, as a participle: "computing scores", "evaluating", "writing the report".
        console: Where to show it.
    """
    bar = _open_bars.get(console)
    if bar is not None:
        with bar.phase(name):
            yield
    elif console.is_terminal:
        with console.status(Text(f"{name} ...")):
            yield
    else:
        _print(console, f"{name} ...")
        yield


@contextmanager
def counting(title: str, console: Console) -> Iterator[Callable[[int, int, float], None]]:
    """A function of images done, all images and seconds left: a bar on a terminal, a line now and then elsewhere."""
    if not console.is_terminal:
        printed = time.monotonic()

        def line(done: int, count: int, left: float) -> None:
            nonlocal printed
            if time.monotonic() - printed >= PLAIN_SECONDS:
                printed = time.monotonic()
                _print(console, f"{title}: {done}/{count} images, about {left:.0f} s left")

        _print(console, f"{title} ...")
        yield line
        return
    with _TwoLines(title, console, 0, 1) as bar:
        yield lambda done, count, _left: bar.update(bar.bar, completed=done, total=count)


def describe(info: StepInfo) -> list[str]:
    """Losses by name, then the sum of all ranks."""
    numbers = [f"{name} {value:.3g}" for name, value in info.values.items() if name != "total"]
    if info.ranks:
        numbers.append(f"ranks {sum(left + right for left, right in info.ranks.values())}")
    return numbers


def fitting(words: Iterable[str], width: int) -> str:
    """As many words as fit into ``width`` columns, each whole."""
    line = ""
    for word in words:
        longer = f"{line}, {word}" if line else word
        if len(longer) > width:
            break
        line = longer
    return line


class _TimeLeft(ProgressColumn):
    """1:23:45 left."""

    def render(self, task: Task) -> Text:
        seconds = None if task.finished else task.time_remaining
        text = "" if task.finished else "-:--:--" if seconds is None else str(timedelta(seconds=max(0, int(seconds))))
        return Text(f"{text} left" if text else "done", style="progress.remaining", no_wrap=True)


class _TwoLines(Progress):
    """The bar, and below it the present phase or numbers."""

    def __init__(self, title: str, console: Console, step: int, steps: int) -> None:
        # The title gives way where there is little room; a bar of a fixed width leaves the rest on the line.
        columns = (
            TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True)),
            BarColumn(bar_width=NARROWEST_BAR if console.width < 80 else 2 * NARROWEST_BAR),
            TextColumn("{task.completed}/{task.total}", table_column=Column(no_wrap=True)),
            _TimeLeft(table_column=Column(no_wrap=True)),
        )
        self.numbers: list[str] = []
        self.phase = ""
        self._room = console.width - 2
        super().__init__(*columns, console=console, expand=True)
        self.bar: TaskID = self.add_task(title, total=steps, completed=step)

    def get_renderables(self) -> Iterable[RenderableType]:
        """Both lines."""
        yield self.make_tasks_table(self.tasks)
        line = f"{self.phase} ..." if self.phase else fitting(self.numbers, self._room)
        yield Text(f"  {line}", style="dim", no_wrap=True, overflow="ellipsis")


def show_message(console: Console, text: str, *, level: int = logging.INFO) -> None:
    """Print a line; a quiet console leaves it to the library's logger, for programs that listen there."""
    if console.quiet:
        _log.log(level, text.removeprefix("note: "))
    else:
        _print(console, text)


def _print(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)
