"""``residapt doctor``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from residapt.cli.app import app, console, errors, show_json
from residapt.cli.options import JsonOption

if TYPE_CHECKING:
    from residapt.doctor import Checkup


@app.command(epilog="Example: residapt doctor --json")
def doctor(
    test: Annotated[bool, typer.Option("--test/--no-test", help="Adapt a small network on each device.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Check the installation: versions, devices, extras, and a self-test of two seconds. Exit code 1 if it fails."""
    from residapt.doctor import examine

    found = examine(test=test)
    if as_json:
        show_json(found)
    else:
        _show(found)
    if found.problems:
        raise typer.Exit(1)


def _show(found: Checkup) -> None:
    """Everything in short lines, problems last."""
    _say(f"residapt {found.residapt}, Python {found.python}, {found.system}")
    _say(", ".join(f"{name} {version or 'missing'}" for name, version in found.packages.items()))
    table = Table("device", "what it is", "self-test")
    tests = {one.device: one for one in found.tests}
    for name, text in found.devices.items():
        one = tests.get(name)
        result = "not run" if one is None else f"{'passed' if one.passed else 'failed'} in {one.seconds:.1f} s"
        table.add_row(name, escape(text), result)
    if found.devices:
        console.print(table)
    _say(f"extras installed: {', '.join(name for name, there in found.extras.items() if there) or 'none'}")
    for name in (name for name, there in found.extras.items() if not there):
        _say(f"  not installed: pip install 'residapt[{name}]'")
    for problem in found.problems:
        errors.print(f"problem: {problem}", style="red", markup=False, highlight=False, soft_wrap=True)
    if not found.problems:
        _say("Everything works.")


def _say(text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
