"""The application that the commands register with, and how errors reach a person."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console

from residapt.errors import Interrupted, ResidaptError
from residapt.version import __version__

app = typer.Typer(
    name="residapt",
    help="Adapt a network to a new domain, with few or no labels there.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 done, 1 a check failed or a program error, 2 bad input, 130 stopped by Ctrl-C.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
console = Console(stderr=False)
"""Results."""
messages = Console(stderr=True)
"""Progress and notes; ``--quiet`` silences it."""
errors = Console(stderr=True)


def _version(requested: bool) -> None:
    if requested:
        console.print(f"residapt {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Adapt a network to a new domain, with few or no labels there."""


def show_json(result: Any) -> None:
    """The result as JSON on the standard output, for ``--json``."""
    from pydantic_core import to_jsonable_python

    typer.echo(json.dumps(to_jsonable_python(result), indent=1))


class _Warnings(logging.Handler):
    """Warnings of the library, one line each among the messages."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print it."""
        messages.print(f"note: {record.getMessage()}", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _warnings_shown() -> Iterator[None]:
    logger, handler = logging.getLogger("residapt"), _Warnings(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def show_error(error: ResidaptError) -> None:
    """The message of an error that a user can mend."""
    errors.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)


def main() -> None:
    """Run a command; what a user can mend ends with one message and exit code 2."""
    from residapt.cli import commands

    commands.register()
    messages.quiet = False
    try:
        with _warnings_shown():
            app()
    except Interrupted as error:
        errors.print(str(error), style="yellow", markup=False, highlight=False, soft_wrap=True)
        sys.exit(128 + error.signal)
    except ResidaptError as error:
        show_error(error)
        sys.exit(2)
    except KeyboardInterrupt:
        errors.print("stopped.", style="yellow")
        sys.exit(130)
