"""The group that the laboratory's commands register with, and where experiments and their records are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from residapt.cli.app import console
from residapt.errors import ConfigError

if TYPE_CHECKING:
    from residapt_bench.record import Record

app = typer.Typer(help="Measure methods on public data sets, and the speed of a step.", no_args_is_help=True)
HOME = Path(__file__).parents[2]
"""The folder ``benchmarks`` of the repository."""
EXPERIMENTS, RESULTS = HOME / "experiments", HOME / "results"
DataRoot = Annotated[
    Path | None, typer.Option("--data", help="Folder with the data sets; RESIDAPT_DATA when not given.")
]
Cache = Annotated[Path, typer.Option(help="Folder for what is computed once: source networks, patches, activations.")]
CACHE = Path("run-bench")
OptionalNames = Annotated[list[str] | None, typer.Argument(help="Experiments, or JSONL files of records.")]


def data_root(given: Path | None) -> Path:
    """The data folder, from the option or the environment."""
    found = given or (Path(os.environ["RESIDAPT_DATA"]) if os.environ.get("RESIDAPT_DATA") else None)
    if found is None:
        raise ConfigError("where is the data? Give --data FOLDER, or set RESIDAPT_DATA.")
    if not found.is_dir():
        raise ConfigError(f"data folder '{found}' does not exist.")
    return found


def experiment_path(name: str) -> Path:
    """The TOML file of an experiment, given by its path or by its name."""
    path = Path(name)
    if path.suffix == ".toml":
        return path
    path = EXPERIMENTS / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in EXPERIMENTS.glob("*.toml")))
        raise ConfigError(f"there is no experiment '{name}'. Give a TOML file, or one of: {known}.")
    return path


def records_path(name: str) -> Path:
    """The records of an experiment, or the file itself."""
    path = Path(name)
    if path.suffix == ".jsonl":
        return path
    return RESULTS / f"{path.stem if path.suffix == '.toml' else name}.jsonl"


def records_of(names: list[str]) -> list[Record]:
    """The records of experiments or files, which must exist."""
    from residapt_bench.record import read_records

    paths = [records_path(name) for name in names]
    for path in paths:
        if not path.is_file():
            raise ConfigError(f"there are no records '{path}'.")
    return read_records(paths)


def write_text(path: Path, text: str) -> None:
    """Write a page or a figure and say so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    console.print(f"Wrote {path}", highlight=False)
