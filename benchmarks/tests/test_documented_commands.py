"""The commands that the documentation names exist, with experiments and records of these names."""

from __future__ import annotations

import itertools
import re
import shlex
from pathlib import Path

import pytest

from residapt_bench.cli import app
from residapt_bench.cli.group import EXPERIMENTS, HOME, RESULTS
from residapt_bench.cli.report import KINDS, OTHER_RECORDS, WITHOUT_RECORDS
from residapt_bench.experiment_file import read_experiment
from residapt_bench.proving_ground.grid import is_ground, read_ground_experiment

COMMAND = re.compile(r"residapt bench ([a-z][^`\n#]*)")


def commands() -> list[tuple[str, ...]]:
    pages = sorted((HOME.parent / "docs").rglob("*.md"))
    found = [text for page in pages for text in COMMAND.findall(page.read_text(encoding="utf-8"))]
    return sorted({tuple(shlex.split(text.replace("|", " "))) for text in found})


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_a_documented_command_names_what_exists(command: tuple[str, ...]) -> None:
    name, *rest = command
    assert name in {each.name or each.callback.__name__ for each in app.registered_commands if each.callback}
    if name == "run":
        chosen = rest[rest.index("--only") + 1].split(",") if "--only" in rest else []
        seeds = rest[rest.index("--seeds") + 1].split(",") if "--seeds" in rest else []
        names = list(itertools.takewhile(lambda word: not word.startswith("-"), rest))
        assert names
        for each in names:
            path = EXPERIMENTS / f"{each}.toml"
            read = read_ground_experiment if is_ground(path) else read_experiment
            assert read(path).only(chosen, [int(seed) for seed in seeds])
    elif name == "report":
        assert rest[0] in (*KINDS, *OTHER_RECORDS, *WITHOUT_RECORDS)
        if rest[0] in WITHOUT_RECORDS:
            return
        names = [word for word in rest[1 : rest.index("-o") if "-o" in rest else None] if not word.startswith("-")]
        assert all(_known(each) for each in names), names
    elif name == "compare" and not rest[0].startswith("-"):
        assert _known(rest[0])


def _known(name: str) -> bool:
    return (RESULTS / f"{name}.jsonl").is_file() or Path(EXPERIMENTS / f"{name}.toml").is_file()
