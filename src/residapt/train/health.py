"""The health monitor: says in plain words, during a run, that something is wrong and what to try."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from residapt.data.domains import Images, Labelled
from residapt.data.split import Part
from residapt.errors import ResidaptError, TrainingError
from residapt.evaluate.evidence import subset
from residapt.evaluate.predict import evaluating, predict_logits
from residapt.rank import RankChange
from residapt.train.callbacks import Callback, CallbackState, StepInfo
from residapt.train.config import HealthConfig
from residapt.train.method import Method
from residapt.train.stopwatch import During, unnoticed
from residapt.train.symptoms import (
    Symptom,
    all_shared,
    barrier,
    few_classes,
    perfect_adversary,
    prior_drift,
    source_falling,
    stuck_adversary,
)

__all__ = ["HealthConfig", "HealthMonitor"]

CHECKING = "checking the predictions"


_REMEMBERED = ("_from_start", "_losses", "_accuracies", "_energies", "_adversary", "_best", "_reported", "_waiting")


def least_samples(classes: int) -> int:
    """Images of each domain that a check takes at least, so that each class is among them."""
    return 8 * classes


class HealthMonitor(Callback):
    """Watch the domain classifier, the barrier, the ranks, and predictions on a fixed sample of both domains.

    Each symptom is reported once, and again only when it has become much worse. Checks change nothing: a run
    with a monitor ends in the same weights as one without.

    ``source`` should be held out from training. ``before`` is the source-only network; without it the source stream
    at the start stands in, which is the same unless a run is resumed. ``checkpoint`` is where checkpoints are kept.
    """

    def __init__(
        self,
        source: Labelled,
        target: Images,
        classes: Sequence[str] = (),
        config: HealthConfig | None = None,
        *,
        before: Callable[[Tensor], Tensor] | None = None,
        checkpoint: Path | None = None,
        during: During = unnoticed,
    ) -> None:
        self.during = during
        self.config = config or HealthConfig()
        self.before, self.checkpoint = before, checkpoint
        self.names = tuple(classes) or tuple(map(str, range(int(source.labels.max()) + 1)))
        limit = max(self.config.samples, least_samples(len(self.names)))
        chosen = subset(len(source.images), limit, seed=0)
        self._source, self._labels = Part(source.images, chosen), source.labels[chosen]
        self._target = Part(target, subset(len(target), limit, seed=0))
        self._prior = _frequencies(source.labels, len(self.names))
        self._reported: dict[str, float] = {}
        self._waiting: list[str] = []

    def new_notes(self) -> list[str]:
        """What is new, for the trainer to pass on."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def on_start(self, method: Method, step: int, steps: int) -> None:
        """Remember how things were."""
        self._steps, self._from_start = steps, step == 0
        self._every = max(1, steps // self.config.checks)
        self._losses: list[float] = []
        self._accuracies: list[float] = []
        self._energies: list[float] = []
        self._seen: set[str] = set()
        self._adversary = _fingerprint(method)
        predict = self.before or (lambda x: method.predict(x, "source"))
        with self.during(CHECKING):
            self._best = self._source_accuracy(method)
            self._old = self._target_frequencies(method, predict)

    def on_length(self, method: Method, step: int, steps: int) -> None:
        """The last step is another one."""
        self._steps = steps

    def on_log(self, method: Method, info: StepInfo) -> None:
        """Domain classifier and barrier."""
        values = info.values
        if "domain" in values:
            self._losses.append(values["domain"])
            unchanged = bool(self._adversary) and _fingerprint(method) == self._adversary
            if self._from_start:
                self._note(stuck_adversary(self._losses, unchanged, self.config))
        if "domain_accuracy" in values:
            self._accuracies.append(values["domain_accuracy"])
            self._note(perfect_adversary(self._accuracies, self.config))
        if "energy" in values:
            self._energies.append(values["energy"])
            self._note(barrier(self._energies, self.config))

    def on_ranks(self, method: Method, step: int, changes: list[RankChange]) -> None:
        """Is a transform left?"""
        self._note(all_shared(method.streams.ranks()))

    def reads(self, step: int) -> bool:
        """When a check is due."""
        return step % self._every == 0

    def on_step(self, method: Method, step: int) -> None:
        """Check predictions when it is time."""
        if self.reads(step) or step == self._steps:
            with self.during(CHECKING):
                self._check(method, last=step == self._steps)

    def on_failure(self, method: Method, step: int, error: ResidaptError) -> None:
        """Say that the run has stopped, and what is left of it."""
        place = self.checkpoint
        if place is not None and place.exists() and (not place.is_dir() or any(place.iterdir())):
            full_disk = isinstance(error.__cause__, OSError)  # no setting is to blame
            gentler = isinstance(error, TrainingError) and not full_disk
            how = "--resume and gentler settings" if gentler else "--resume"
            left = f"The last good checkpoint is kept in '{place}'; resume from there with {how}."
        else:
            left = "No checkpoint had been written; train.checkpoint_every = 200 keeps one from now on."
        self._note(
            Symptom("stopped", 1.0, f"training stopped after {step} good steps of {self._steps}: {error} {left}")
        )

    def state(self) -> CallbackState:
        """What has been observed and reported so far."""
        values = {name: getattr(self, name) for name in _REMEMBERED}
        return CallbackState({**values, "_seen": sorted(self._seen), "_old": self._old.tolist()})

    def restore(self, method: Method, state: CallbackState) -> None:
        """Continue as if there had been no stop."""
        for name in _REMEMBERED:
            setattr(self, name, state.values[name])
        self._seen = set(state.values["_seen"])
        self._old = torch.tensor(state.values["_old"], dtype=self._old.dtype)

    def _check(self, method: Method, *, last: bool) -> None:
        accuracy = self._source_accuracy(method)
        self._best = max(self._best, accuracy)
        now = self._target_frequencies(method, lambda x: method.predict(x, "target"))
        # A collapse is a drift as well; the stronger word is enough.
        moved = few_classes(now, self._old, self.names, self.config) or prior_drift(
            now, self._old, self._prior, self.names, self.config
        )
        found = [symptom for symptom in (source_falling(accuracy, self._best, self.config), moved) if symptom]
        for symptom in found:
            # Adversarial training swings; only what stays for a second check, or to the end, is reported.
            if last or symptom.kind in self._seen:
                self._note(symptom)
        self._seen = {symptom.kind for symptom in found}

    def _source_accuracy(self, method: Method) -> float:
        with evaluating(method):
            logits = _logits(method, lambda x: method.predict(x, "source"), self._source)
        return float((logits.argmax(1) == self._labels).double().mean())

    def _target_frequencies(self, method: Method, predict: Callable[[Tensor], Tensor]) -> Tensor:
        with evaluating(method):
            logits = _logits(method, predict, self._target)
        return _frequencies(logits.argmax(1), len(self.names))

    def _note(self, symptom: Symptom | None) -> None:
        if symptom is None:
            return
        reported = self._reported.get(symptom.kind)
        if reported is None or symptom.severity >= self.config.worse * reported:
            self._reported[symptom.kind] = symptom.severity
            self._waiting.append(symptom.text if reported is None else f"worse than before: {symptom.text}")


def _logits(method: Method, predict: Callable[[Tensor], Tensor], images: Images) -> Tensor:
    return predict_logits(predict, images, batch_size=64, device=next(method.parameters()).device)


def _frequencies(labels: Tensor, classes: int) -> Tensor:
    return torch.bincount(labels.long(), minlength=classes).double() / len(labels)


def _fingerprint(method: Method) -> list[float]:
    """Norms of the adversary's parameters: any training changes them."""
    return [float(parameter.detach().norm()) for parameter in method.groups()["adversary"]]
