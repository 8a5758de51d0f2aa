"""Runs that can be stopped at any point and resumed: checkpoints of each stage, and signals."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from residapt.config import read_toml
from residapt.storage.checkpoint import steps_in
from residapt.storage.run_directory import RunDirectory
from residapt.train import Trainer
from residapt.train.checkpoint import Checkpointer, restore_checkpoint
from residapt.train.progress import ProgressBar
from residapt.train.signals import stop_on_signals
from residapt.trust import names_code


def resume_command(path: Path) -> str:
    """The command that resumes a run; its own network may be code, which has to be allowed again."""
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
