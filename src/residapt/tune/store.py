"""A study on disk: its settings, the trials so far, and a lock.

``study.toml`` has the search space and the settings of all trials; ``journal.jsonl`` is Optuna's record of the trials,
one JSON object a line; ``source/`` is the run with the source network; ``trials/`` has a run for each trial;
``best.toml`` is the configuration of the best one.
"""

from __future__ import annotations

import fcntl
import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from residapt.config import read_toml, write_config
from residapt.errors import ConfigError, DataError
from residapt.settings import Settings
from residapt.storage.atomic import atomic_file
from residapt.storage.run_directory import RunDirectory
from residapt.tune.search import Dimension

State = Literal["scored", "rejected", "failed", "stopped"]
"""Rejected: the guard found the network worse than the source network. Stopped: by a signal; the trial continues."""


class StudyConfig(Settings):
    """What a study searches, and by which score."""

    search: tuple[str, ...]
    """Settings to search over, as for ``--search``."""
    score: str = "infomax"
    """Label-free score to maximise."""
    trials: int = Field(20, ge=1)
    """Number of trials."""
    config: dict[str, Any] = {}
    """Settings that all trials share; filled in when the study is created."""


@dataclass(frozen=True)
class Outcome:
    """How a trial ended."""

    state: State
    score: float | None = None
    """Score of the adapted network; higher is better."""
    before: float | None = None
    """Score of the source network."""
    reason: str = ""
    """Why the trial does not count, if it does not."""
    seconds: float = 0.0
    signal: int = 2
    """The signal that stopped it, if one did."""


@dataclass(frozen=True)
class SuggestedSettings:
    """A trial to run next."""

    number: int
    run: str
    """Name of its folder; a trial that replaces a stopped one continues in that one's folder."""
    values: dict[str, Any]


@dataclass(frozen=True)
class Trial(SuggestedSettings):
    """A trial that has ended."""

    outcome: Outcome


class StudyFolder:
    """The files of a study."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.settings = self.path / "study.toml"
        self.journal = self.path / "journal.jsonl"
        self.source = self.path / "source"
        self.trials = self.path / "trials"
        self.best = self.path / "best.toml"

    def create(self, settings: StudyConfig) -> None:
        """Make the folder; like that of a run it must be new or empty."""
        RunDirectory.create(self.path)
        self.trials.mkdir()
        self.write(settings)

    def write(self, settings: StudyConfig) -> None:
        """Write the settings of the study."""
        with atomic_file(self.settings, overwrite=True) as file:
            write_config(settings, file)

    def read(self) -> StudyConfig:
        """The settings of an existing study."""
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
                raise ConfigError(f"another process is working on the study '{self.path}'. Wait for it.") from None
            yield


class TrialStore:
    """The trials of a study, kept by Optuna; the caller holds the study's lock.

    For Optuna a trial is complete (it has a score), pruned (rejected or failed, so that the sampler avoids its
    neighbourhood) or failed (its process was stopped; another trial with the same values replaces it).
    """

    def __init__(self, journal: Path, space: Sequence[Dimension]) -> None:
        self._optuna, self.space = require_optuna(), space
        self._study = _open_journal(journal)
        self._states = self._optuna.trial.TrialState

    def requeue_interrupted(self) -> None:
        """Mark trials that were running when the process ended, and queue them again."""
        for trial in self._with(self._states.RUNNING):
            self._study.tell(trial.number, state=self._states.FAIL)
        replaced = {trial.user_attrs.get("retry_of") for trial in self._with()}
        for trial in self._with(self._states.FAIL):
            if trial.number not in replaced and len(trial.params) == len(self.space):
                attributes = {"retry_of": trial.number, "run": _run_of(trial)}
                self._study.enqueue_trial(trial.params, user_attrs=attributes)

    def count(self) -> int:
        """Number of trials that have ended or are running."""
        return len(self._with(self._states.COMPLETE, self._states.PRUNED, self._states.RUNNING))

    def suggest(self, seed: int) -> SuggestedSettings:
        """The next trial: a queued one, or one from a sampler with this seed.

        With a seed for each trial, a search that was stopped continues with the suggestions that it would have had.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # constant_liar is experimental in some versions
            self._study.sampler = self._optuna.samplers.TPESampler(seed=seed, constant_liar=True)
            trial = self._study.ask({d.key: self._distribution(d) for d in self.space})
        return SuggestedSettings(trial.number, _run_of(trial), self._values(trial.params))

    def end(self, number: int, outcome: Outcome) -> None:
        """Record how a trial ended."""
        trial = self._optuna.trial.Trial(self._study, self._with()[number]._trial_id)
        for name, value in asdict(outcome).items():
            trial.set_user_attr(name, value)
        if outcome.state == "scored":
            self._study.tell(number, outcome.score)
        else:
            self._study.tell(number, state=self._states.PRUNED)

    def ended(self) -> list[Trial]:
        """All trials that have ended, in order."""
        names = Outcome.__dataclass_fields__
        return [
            Trial(
                number=trial.number,
                run=_run_of(trial),
                values=self._values(trial.params),
                outcome=Outcome(**{name: value for name, value in trial.user_attrs.items() if name in names}),
            )
            for trial in self._with(self._states.COMPLETE, self._states.PRUNED)
        ]

    def _values(self, params: dict[str, Any]) -> dict[str, Any]:
        return {d.key: d.value(params[d.key]) for d in self.space}

    def _distribution(self, d: Dimension) -> Any:
        distributions = self._optuna.distributions
        if d.kind == "choice":
            return distributions.CategoricalDistribution(d.choices)
        if d.kind == "int":
            return distributions.IntDistribution(int(d.low), int(d.high), log=d.log)
        return distributions.FloatDistribution(d.low, d.high, log=d.log)

    def _with(self, *states: Any) -> list[Any]:
        """The trials in these states, or all."""
        return list(self._study.get_trials(deepcopy=False, states=states or None))


def require_optuna() -> Any:
    """The module, quiet, or an error that names the extra."""
    try:
        import optuna
    except ImportError:
        raise ConfigError("residapt tune needs the package optuna: pip install 'residapt[tune]'.") from None
    optuna.logging.set_verbosity(logging.ERROR)
    return optuna


def _run_of(trial: Any) -> str:
    return str(trial.user_attrs.get("run", f"{trial.number:04d}"))


def _open_journal(journal: Path) -> Any:
    """Optuna's study in this file, which is created if there is none."""
    optuna = require_optuna()
    _cut_torn_line(journal)
    backend = optuna.storages.journal.JournalFileBackend(str(journal), lock_obj=_NoLock())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # journals are experimental in some versions
        try:
            storage = optuna.storages.JournalStorage(backend)
            return optuna.create_study(
                study_name="residapt", storage=storage, direction="maximize", load_if_exists=True
            )
        except Exception as error:  # a line that Optuna did not write can make it raise anything
            raise DataError(
                f"'{journal}' cannot be read as Optuna's record of trials ({type(error).__name__}: {error}). "
                "Start another study with a new -o."
            ) from None


class _NoLock:
    """Optuna's own lock would outlive a process that is killed; the study's lock does not."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        return None


def _cut_torn_line(journal: Path) -> None:
    """Remove the end of a line that was being written when the process was killed."""
    if not journal.exists():
        return
    content = journal.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(journal, whole)
