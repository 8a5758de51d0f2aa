"""The trials of a study: which comes next, what became of those before, and how a stopped search goes on."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from residapt.data.batches import derived_seed
from residapt.tune.search import Dimension
from residapt.tune.store import StudyFolder, open_trials, optuna_module
from residapt.tune.trial import Outcome, State

NOTES = ("state", "score", "before", "reason", "seconds")


@dataclass(frozen=True)
class Next:
    """A trial that has been decided on."""

    number: int
    run: str
    """Name of its folder; the second attempt of a stopped trial goes on in the first one's."""
    values: dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """A trial that has ended."""

    number: int
    run: str
    values: dict[str, Any]
    outcome: Outcome


class Trials:
    """Optuna's record, with the states in which residapt's runs end.

    Optuna knows a trial as complete (it has a score), pruned (turned down or failed: the sampler learns to keep away)
    or failed (its process was stopped; another trial with the same settings takes its place).
    """

    def __init__(self, folder: StudyFolder, space: Sequence[Dimension], *, seed: int, parallel: bool) -> None:
        self._optuna, self.space, self.seed, self.parallel = optuna_module(), space, seed, parallel
        self._study = open_trials(folder.journal)
        self._states = self._optuna.trial.TrialState

    def recover(self) -> int:
        """Mark what was under way when the process ended, and queue it again; gives how many there were."""
        for trial in self._with(self._states.RUNNING):
            self._study.tell(trial.number, state=self._states.FAIL)
        replaced = {trial.user_attrs.get("retry_of") for trial in self._all()}
        stopped = [
            t for t in self._with(self._states.FAIL) if t.number not in replaced and len(t.params) == len(self.space)
        ]
        for trial in stopped:
            self._study.enqueue_trial(trial.params, user_attrs={"retry_of": trial.number, "run": _run_of(trial)})
        return len(stopped)

    def count(self) -> int:
        """Trials that have ended or are under way."""
        states = (self._states.COMPLETE, self._states.PRUNED, self._states.RUNNING)
        return len(self._with(*states))

    def next(self) -> Next:
        """Decide on a trial: a queued one, or one that the sampler suggests.

        The sampler is new for every trial, with a seed of its own, so that a search that was stopped goes on with the
        suggestions that it would have had.
        """
        seed = derived_seed(self.seed, "tune", self.count()) % 2**32
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # constant_liar is marked as new in some versions
            self._study.sampler = self._optuna.samplers.TPESampler(seed=seed, constant_liar=self.parallel)
            trial = self._study.ask({d.key: self._distribution(d) for d in self.space})
        return Next(trial.number, _run_of(trial), self._values(trial.params))

    def end(self, number: int, outcome: Outcome) -> None:
        """Write down how a trial ended."""
        trial = self._optuna.trial.Trial(self._study, self._all()[number]._trial_id)
        for name in NOTES:
            trial.set_user_attr(name, getattr(outcome, name))
        if outcome.state == "scored":
            self._study.tell(number, outcome.score)
        else:
            self._study.tell(number, state=self._states.PRUNED)

    def ended(self) -> list[Trial]:
        """All trials that have ended, in order."""
        return list(self._ended())

    def best(self) -> Trial | None:
        """The trial with the highest score; the first of several."""
        scored = [trial for trial in self._ended() if trial.outcome.state == "scored"]
        return max(scored, key=lambda trial: trial.outcome.score or 0.0) if scored else None

    def _ended(self) -> Iterator[Trial]:
        for trial in self._with(self._states.COMPLETE, self._states.PRUNED):
            notes = {name: trial.user_attrs[name] for name in NOTES if name in trial.user_attrs}
            state: State = notes.pop("state", "failed")
            yield Trial(trial.number, _run_of(trial), self._values(trial.params), Outcome(state, **notes))

    def _values(self, params: dict[str, Any]) -> dict[str, Any]:
        return {d.key: d.value(params[d.key]) for d in self.space}

    def _distribution(self, d: Dimension) -> Any:
        distributions = self._optuna.distributions
        if d.kind == "choice":
            return distributions.CategoricalDistribution(d.choices)
        if d.kind == "int":
            return distributions.IntDistribution(int(d.low), int(d.high), log=d.log)
        return distributions.FloatDistribution(d.low, d.high, log=d.log)

    def _all(self) -> list[Any]:
        return list(self._study.get_trials(deepcopy=False))

    def _with(self, *states: Any) -> list[Any]:
        return list(self._study.get_trials(deepcopy=False, states=states))


def _run_of(trial: Any) -> str:
    return str(trial.user_attrs.get("run", f"{trial.number:04d}"))
