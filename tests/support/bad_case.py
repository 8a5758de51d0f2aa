"""One row of the catalogue."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Make = Callable[[Path, Path], object]
ADAPT = (
    "adapt -s {good}/source -t {good}/target -o {bad}/out/run --device cpu --steps 2 "
    "--set pretrain.steps=2 --set pretrain.allow_chance=true --set train.batch_size=4"
)
"""A command that would succeed; options that are repeated after it count instead."""


def nothing(bad: Path, good: Path) -> None:
    """The arguments alone are wrong."""


def placed(text: str, bad: Path, good: Path) -> str:
    """A text with the places filled in."""
    return text.replace("{bad}", str(bad)).replace("{good}", str(good))


@dataclass(frozen=True)
class Case:
    """A bad input: what it is called, its arguments, how it is refused, and how it is made from the good world."""

    name: str
    arguments: str
    error: str
    """Class of the error; ``usage`` for what the command line itself refuses."""
    values: tuple[str, ...]
    """What the message names: the value that was given, the file, the key, or what to give instead."""
    make: Make = nothing

    def command(self, bad: Path, good: Path) -> list[str]:
        """The arguments with the places filled in."""
        return [placed(part, bad, good) for part in shlex.split(self.arguments)]


def write(name: str, content: str | bytes) -> Make:
    """A maker of one file in the bad place."""

    def make(bad: Path, good: Path) -> None:
        path = bad / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    return make
