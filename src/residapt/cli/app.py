"""The application that the commands register with, and how errors reach a person."""

from __future__ import annotations

import sys
from typing import Annotated

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
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
console = Console(stderr=False)
messages = Console(stderr=True)


def _version(asked: bool) -> None:
    if asked:
        console.print(f"residapt {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Adapt a network to a new domain, with few or no labels there."""


def show_error(error: ResidaptError) -> None:
    """The message of an error that a user can mend."""
    messages.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)


def main() -> None:
    """Run a command; what a user can mend ends with one message and exit code 2."""
    from residapt.cli import commands

    commands.register()
    try:
        app()
    except Interrupted as error:
        messages.print(str(error), style="yellow", markup=False, highlight=False, soft_wrap=True)
        sys.exit(128 + error.signal)
    except ResidaptError as error:
        show_error(error)
        sys.exit(2)
    except KeyboardInterrupt:
        messages.print("stopped.", style="yellow")
        sys.exit(130)
