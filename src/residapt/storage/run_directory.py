"""The run directory: configuration, metrics, checkpoints, adapter, model and report of one run."""

from __future__ import annotations

import os
from pathlib import Path

from residapt.errors import ConfigError
from residapt.storage.hub import CONFIG, is_hub_name


class RunDirectory:
    """Names of the files of a run. Creating one never touches a directory that holds another run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.toml"
        self.metrics = path / "metrics.jsonl"
        self.labelled = path / "labelled.csv"
        self.source = path / "source.safetensors"
        self.checkpoint = path / "checkpoint"
        self.choices = self.checkpoint / "choices.json"
        """What was chosen at the start that is not in the configuration; a resumed run reads it."""
        self.outputs = path / "outputs"
        """Of frozen stages; removed when the run has ended."""
        self.adapter = path / "adapter"
        self.model = path / "model.safetensors"
        self.rejected = path / "rejected"
        """The adapted network and its adapter, where the source network was selected instead."""
        self.summary = path / "summary.json"
        self.report = path / "report.html"

    @classmethod
    def create(cls, path: Path) -> RunDirectory:
        """Make the directory; refuse one that exists and is not empty, or cannot be written."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            more = f", or resume it with --resume {path}" if cls(path).config.is_file() else ""
            raise ConfigError(f"output '{path}' exists already. Choose another with -o{more}.")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"output '{path}' cannot be created: {error.strerror}. Choose a folder you can write to."
            ) from None
        if not os.access(path, os.W_OK):
            raise ConfigError(f"output '{path}' cannot be written. Choose a folder you can write to.")
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """An existing run."""
        run = cls(path)
        if not run.config.is_file():
            raise ConfigError(f"'{path}' is not a run directory: it has no config.toml. Give the folder that -o named.")
        return run


def check_result(path: Path) -> None:
    """Reject what is neither a run directory nor an adapter folder nor a file, nor could be an adapter on the Hub."""
    if path.is_file() or is_hub_name(path):
        return
    if not path.is_dir():
        raise ConfigError(f"'{path}' does not exist. Give a run directory, an adapter folder or a model.safetensors.")
    if not (path / CONFIG).is_file():
        RunDirectory.open(path)
