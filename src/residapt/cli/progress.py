"""A progress bar over images on the error stream, where that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from residapt.cli.app import messages


@contextmanager
def image_progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """A function ``(done, total)`` that moves the bar."""
    # Fits into 60 columns.
    columns = (TextColumn(title), BarColumn(bar_width=20), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=messages, transient=True, disable=not messages.is_terminal) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def list_unreadable(files: dict[str, str]) -> None:
    """Name each file that was left out, with the reason, and their number."""
    for path, reason in files.items():
        messages.print(f"left out: {path}: {reason}", markup=False, highlight=False, soft_wrap=True)
    if files:
        messages.print(f"{len(files)} file(s) could not be read and were left out.", style="yellow", highlight=False)
