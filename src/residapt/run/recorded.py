"""The configuration of a resumed run; read before torch is loaded."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from residapt.config import Config, load_config
from residapt.errors import ConfigError
from residapt.storage.run_directory import RunDirectory


def recorded_config(path: Path, overrides: Sequence[str] = (), options: Mapping[str, Any] | None = None) -> Config:
    """The configuration of a run that is to be resumed, with what is changed for the rest of it.

    A run that has finished is refused: there is nothing left to do.
    """
    run = RunDirectory.open(path)
    if run.summary.exists():
        raise ConfigError(
            f"run '{path}' has finished. See {run.report.name} there; residapt accept and reject change which of its "
            "networks is selected. For other settings start another run with a new -o (--base spares the source "
            f"training: --base {path})."
        )
    fixed = ("model.", "data.", "method=", "recipe", "seed", "freeze", "transform.", "train.optimizer")
    for text in (*overrides, *(f"{key}={value}" for key, value in (options or {}).items())):
        if text.startswith(fixed):
            raise ConfigError(f"{text} would make another run of '{path}'. Start it with a new -o.")
    return load_config(run.config, overrides, options=options)


def reopened_config(path: Path, options: Mapping[str, Any]) -> Config:
    """The configuration of a finished run with another ``select``; refused where the checkpoints are gone."""
    run = RunDirectory.open(path)
    if not any(run.checkpoint.glob("adapt*/*")):
        again = ("--config", str(run.config), "--base", str(path), "--select", str(options["select"]), "-o", "NEW")
        raise ConfigError(
            f"run '{path}' has finished without --keep-checkpoints, so that there is none to select. This adapts its "
            f"source network once more: residapt adapt {shlex.join(again)}"
        )
    return load_config(run.config, options=options)
