"""Runs that can be stopped at any point and go on: checkpoints of each stage, signals, and ``--resume``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from residapt.config import Config, load_config, read_toml
from residapt.errors import ConfigError
from residapt.models.trust import names_code
from residapt.storage.checkpoint import steps_in
from residapt.storage.run_directory import RunDirectory
from residapt.train import Trainer
from residapt.train.checkpoint import Checkpointer, restore_checkpoint
from residapt.train.progress import ProgressBar
from residapt.train.signals import stop_on_signals


def resume_command(path: Path) -> str:
    """What a person types to go on with a run; its own network may be code, which has to be allowed again."""
    file = RunDirectory(path).config
    model = read_toml(file).get("model", {}) if file.is_file() else {}
    allow = " --trust-code" if names_code(str(model.get("spec", ""))) else ""
    return f"residapt adapt --resume {shlex.quote(str(path))}{allow}"


@contextmanager
def resumable(
    trainer: Trainer, run: RunDirectory | None, stage: str, *, every: int, keep: bool = False
) -> Iterator[None]:
    """Within this context the training of a stage saves checkpoints, and starts from the newest one there is."""
    try:
        if run is None:
            yield
            return
        directory = run.checkpoint / stage
        trainer.callbacks.items.append(Checkpointer(directory, every, command=resume_command(run.path), keep=keep))
        if steps_in(directory):
            restore_checkpoint(trainer, directory)
        with stop_on_signals(trainer):
            yield
    finally:
        for item in trainer.callbacks.items:
            if isinstance(item, ProgressBar):
                item.close()


def recorded_config(path: Path, overrides: Sequence[str] = (), options: Mapping[str, Any] | None = None) -> Config:
    """The configuration of a run that is to go on, with what is changed for the rest of it.

    A run that has finished is refused: there is nothing left to do.
    """
    run = RunDirectory.open(path)
    if run.summary.exists():
        raise ConfigError(
            f"run '{path}' has finished. See {run.report.name} there; residapt accept and reject change which of its "
            "networks is selected. For other settings start another run with a new -o (--base spares the source "
            f"training: --base {path})."
        )
    fixed = ("model.", "data.", "method=", "recipe", "seed", "freeze", "transform.", "train.seed", "train.optimizer")
    for text in (*overrides, *(f"{key}={value}" for key, value in (options or {}).items())):
        if text.startswith(fixed):
            raise ConfigError(f"{text} would make another run of '{path}'. Start it with a new -o.")
    return load_config(run.config, overrides, options=options)
