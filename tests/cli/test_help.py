"""Every command explains itself and shows an example that names it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import typer

from residapt.cli.app import app
from residapt.cli.commands import register
from support.cli import invoke

register()


def commands() -> Iterator[tuple[str, ...]]:
    """Names of all commands, those of groups included."""
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        if hasattr(command, "commands"):
            yield from ((name, inner) for inner in command.commands)
        else:
            yield (name,)


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_help_has_a_sentence_and_an_example(words: tuple[str, ...]):
    code, text = invoke(*words, "--help")
    assert code == 0
    assert f"residapt {' '.join(words)} [OPTIONS]" in text
    assert f"Example: residapt {' '.join(words)}" in text


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_help_is_made_of_words(words: tuple[str, ...]):
    """A renamed class must not rename what is said about images."""
    _, text = invoke(*words, "--help")
    assert set(re.findall(r"\b[A-Z][a-z]+[A-Z]\w*", text)) <= {"LoRA", "PyTorch", "TensorBoard"}
