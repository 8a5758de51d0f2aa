"""A study on disk: what is searched, every trial so far, and who is working on it.

``study.toml`` says what is searched; ``journal.jsonl`` is Optuna's record of the trials, one JSON object a line;
``source/`` is the run with the source network; ``trials/`` has a run for each trial; ``best.toml`` is the result.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import Field

from residapt.config import Config, read_toml
from residapt.errors import ConfigError, DataError
from residapt.evaluate.scores import SCORES
from residapt.settings import Settings
from residapt.storage.atomic import atomic_file

SCORED = tuple(name for name in SCORES if name != "devn")
"""Scores by which can be searched: those that every run ends with."""


class StudyConfig(Settings):
    """What is searched, and by what."""

    search: tuple[str, ...]
    """Settings to search over, as on the command line."""
    score: str = "infomax"
    """Label-free score that is to be as high as possible."""
    trials: int = Field(20, ge=1)
    """How many trials."""
    config: dict[str, Any] = {}
    """Settings that all trials have in common."""


class StudyFolder:
    """Names of the files of a study."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.settings = self.path / "study.toml"
        self.journal = self.path / "journal.jsonl"
        self.source = self.path / "source"
        self.trials = self.path / "trials"
        self.best = self.path / "best.toml"

    def create(self, settings: StudyConfig) -> None:
        """Make the folder; one that exists and is not empty is refused."""
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            hint = f" Go on with it: residapt tune --resume {self.path}" if self.settings.exists() else ""
            raise ConfigError(f"output '{self.path}' exists already. Choose another with -o.{hint}")
        try:
            self.trials.mkdir(parents=True)
        except OSError as error:
            raise ConfigError(f"output '{self.path}' cannot be created: {error.strerror}. Choose another.") from None
        self.write(settings)

    def write(self, settings: StudyConfig) -> None:
        """Write what is searched."""
        with atomic_file(self.settings, overwrite=True) as file:
            values = settings.model_dump(mode="json")
            file.write_text(tomli_w.dumps({**values, "config": _without_none(values["config"])}), encoding="utf-8")

    def read(self) -> StudyConfig:
        """What is searched in a study that exists."""
        if not self.settings.is_file():
            raise ConfigError(f"'{self.path}' is not a study: it has no {self.settings.name}. Start one with -o.")
        return StudyConfig.parse(read_toml(self.settings), where=str(self.settings))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Within this context no other process works on the study; the lock ends with the process."""
        with (self.path / "lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ConfigError(f"another process works on the study '{self.path}'. Wait for it to end.") from None
            yield


def given_config(settings: StudyConfig) -> Config:
    """The settings that all trials have in common."""
    return Config.parse(settings.config, where="study.toml")


def optuna_module() -> Any:
    """The module, quiet, or an error that names the extra."""
    try:
        import optuna
    except ImportError:
        raise ConfigError("residapt tune needs a package: pip install 'residapt[tune]'.") from None
    optuna.logging.set_verbosity(logging.ERROR)
    return optuna


def open_trials(journal: Path) -> Any:
    """Optuna's study in the journal; the caller holds the study's lock."""
    optuna = optuna_module()
    _cut_torn_line(journal)
    backend = optuna.storages.journal.JournalFileBackend(str(journal), lock_obj=_NoLock())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # journals are marked as new in some versions
        try:
            storage = optuna.storages.JournalStorage(backend)
            return optuna.create_study(
                study_name="residapt", storage=storage, direction="maximize", load_if_exists=True
            )
        except Exception as error:  # a line that is no record of Optuna can make it raise anything
            raise DataError(
                f"'{journal}' cannot be read as the record of a study ({type(error).__name__}: {error}). "
                "Start another study with a new -o."
            ) from None


class _NoLock:
    """Optuna's own lock would outlive a process that is killed; the study's lock does not."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        return None


def _cut_torn_line(journal: Path) -> None:
    """Take away the end of a line that was being written when the process was killed."""
    if not journal.exists():
        return
    content = journal.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(journal, whole)


def _without_none(values: Any) -> Any:
    """TOML has no null."""
    return json.loads(
        json.dumps(values), object_pairs_hook=lambda pairs: {key: value for key, value in pairs if value is not None}
    )
