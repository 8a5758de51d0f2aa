"""The catalogue of bad inputs: each ends with exit code 2 and one message, and leaves everything as it was."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from residapt.cli import app as application
from residapt.cli.app import show_error
from residapt.errors import ResidaptError
from support.bad_case import Case, placed
from support.cases_arguments import ARGUMENTS, CONFIGURATIONS, SEARCHES
from support.cases_data import FOLDERS, OUTPUTS
from support.cases_labels import LABEL_FILES
from support.cases_models import SPECS, WEIGHTS
from support.cases_runs import ADAPTERS, CHECKPOINTS, MODELS
from support.cli import invoke
from support.small_world import build_world, listing

CATALOGUE = {
    "arguments": ARGUMENTS,
    "search": SEARCHES,
    "configuration": CONFIGURATIONS,
    "folder": FOLDERS,
    "labels": LABEL_FILES,
    "output": OUTPUTS,
    "spec": SPECS,
    "weights": WEIGHTS,
    "model": MODELS,
    "adapter": ADAPTERS,
    "checkpoint": CHECKPOINTS,
}
ROWS = [pytest.param(case, id=f"{kind}: {case.name}") for kind, cases in CATALOGUE.items() for case in cases]
LONGEST = 600
"""Characters of a message that a person still reads, besides the paths in it."""


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_world(tmp_path_factory.mktemp("good"))


@pytest.fixture(scope="module")
def before(good: Path) -> dict[str, str]:
    return listing(good)


def plain(text: str) -> str:
    """Without the frames that are drawn around some messages, and in one line."""
    return " ".join(re.sub("[│╭╮╰╯─]", " ", text).split())


def test_the_catalogue_has_at_least_sixty_different_inputs() -> None:
    names = [str(row.id) for row in ROWS]
    assert len(set(names)) == len(names) >= 60


@pytest.mark.parametrize("case", ROWS)
def test_bad_input(
    case: Case, good: Path, before: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.make(tmp_path, good)
    made = listing(tmp_path)
    monkeypatch.chdir(tmp_path)  # whatever is written to a default place is noticed as well
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    raised = []

    def record(error: ResidaptError) -> None:
        raised.append(type(error).__name__)
        show_error(error)

    monkeypatch.setattr(application, "show_error", record)
    code, text = invoke(*case.command(tmp_path, good))
    message = plain(text)
    assert code == 2, message
    assert (raised or ["usage"]) == [case.error]
    assert case.values
    missing = [value for value in case.values if placed(value, tmp_path, good) not in message]
    assert not missing, message
    assert "Traceback" not in message
    assert len(re.findall(r"^error: |^╭─ Error", text, re.MULTILINE)) == 1
    assert len(message.replace(str(tmp_path), "").replace(str(good), "")) < LONGEST
    assert listing(tmp_path) == made
    assert listing(good) == before
