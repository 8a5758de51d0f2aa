"""Progress of commands, and what those over images share: a bar, rows on standard output, unreadable files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from residapt.cli.app import console, messages


def progress_console(*, quiet: bool, as_json: bool) -> Console:
    """Where a long command shows how far it is: not beside JSON, and nowhere if it shall be quiet."""
    return messages if quiet or as_json else console


@contextmanager
def image_progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """A function ``(done, total)`` that moves the bar."""
    # Fits into 60 columns.
    columns = (TextColumn(title), BarColumn(bar_width=20), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=messages, transient=True, disable=not messages.is_terminal) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def standard_output() -> Iterator[TextIO]:
    """The standard output for rows; where it cannot be written, such as on a full disk, one message says so."""
    from residapt.errors import ConfigError

    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # names of files need not be UTF-8
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # the reader has seen enough
    except OSError as error:
        # What is left in the buffer would be written, and fail, once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise ConfigError(
            f"the rows cannot be written to the standard output: {error.strerror}. Write them to a file with -o."
        ) from None


def list_unreadable(files: dict[str, str]) -> None:
    """Name each file that was left out, with the reason, and their number."""
    for path, reason in files.items():
        messages.print(f"left out: {path}: {reason}", markup=False, highlight=False, soft_wrap=True)
    if files:
        messages.print(f"{len(files)} file(s) could not be read and were left out.", style="yellow", highlight=False)
