"""Scores along the run: written down, and used to keep the best moment where one is to be selected."""

from __future__ import annotations

import copy
from dataclasses import replace

from residapt.data.domains import Images, Labelled
from residapt.data.split import Part, part_of
from residapt.errors import DataError
from residapt.evaluate.collect import collect
from residapt.evaluate.evidence import Evidence, subset
from residapt.evaluate.predict import Evaluation, accuracy
from residapt.evaluate.scores import comparable, score
from residapt.streams import Stream
from residapt.train import Callback, Method
from residapt.train.callbacks import CallbackState
from residapt.train.metrics import MetricsFile
from residapt.train.state import load_method, method_tensors
from residapt.train.stopwatch import During, unnoticed

QUICK = ("source_accuracy", "entropy", "infomax", "bnm", "snd", "class_ami")
"""Scores that take little time; DEV fits many classifiers."""
SCORING = "computing scores"
SAMPLE = 500
"""Images of each domain that the scores along the run are computed on."""


class ScoresAlong(Callback):
    """Every ``every`` steps: label-free scores, and accuracy where there are labels to score with.

    Step 0 is the source network on the target. No two records are closer together than half of ``every``.
    With ``select`` a copy of the method is kept whenever that score is higher than before. Accuracies are for
    the record alone: they are computed after the choice and play no part in it. All are of at most ``images`` images
    of each set, so that they take little time; the whole sets are scored when the run has ended.
    """

    def __init__(
        self,
        held_out: Labelled,
        target: Images,
        *,
        every: int,
        select: str = "last",
        evaluation: Evaluation | None = None,
        metrics: MetricsFile | None = None,
        has_source: bool = True,
        images: int = SAMPLE,
        during: During = unnoticed,
    ) -> None:
        self.held_out = part_of(held_out, subset(len(held_out.images), images, seed=0))
        self.target = Part(target, subset(len(target), images, seed=0))
        self.during, self.has_source = during, has_source
        self.every, self.select, self.metrics = every, select, metrics
        self.evaluation = evaluation and _part(evaluation, images)
        self.best: tuple[float, int, Method] | None = None
        self._of_use = metrics is not None or select != "last"
        self._evaluated, self._steps = -1, 0

    def on_start(self, method: Method, step: int, steps: int) -> None:
        """Score the source network, which the source stream still is."""
        self._steps = steps
        if step == 0 and self.every and self.metrics is not None:
            with self.during(SCORING):
                self._record(method, 0, self._scores(method, "source"), "source")

    def on_length(self, method: Method, step: int, steps: int) -> None:
        """The last step is another one."""
        self._steps = steps

    def reads(self, step: int) -> bool:
        """When scores are due."""
        return self.every > 0 and step % self.every == 0

    def on_step(self, method: Method, step: int) -> None:
        """Score when it is time."""
        near_the_end = 0 < self._steps - step < self.every / 2  # on_end scores soon
        if self.reads(step) and not near_the_end:
            self._score(method, step)

    def on_end(self, method: Method, step: int) -> None:
        """Score at the end as well."""
        if self._evaluated != step:
            self._score(method, step)

    def selected(self, method: Method) -> tuple[Method, str]:
        """The method at the best step, and how it was selected."""
        if self.best is None:
            return method, "last"
        value, step, best = self.best
        return best, f"step {step}, the best by {self.select} ({value:.4g})"

    def state(self) -> CallbackState:
        """The best moment so far, with the weights of then."""
        values = {"evaluated": self._evaluated, "select": self.select}
        if self.best is None:
            return CallbackState({**values, "best": None})
        value, step, best = self.best
        return CallbackState({**values, "best": [value, step]}, method_tensors(best))

    def restore(self, method: Method, state: CallbackState) -> None:
        """Restore the best moment so far, unless it was the best by another score."""
        self._evaluated, self.best = int(state.values["evaluated"]), None
        if state.values["best"] is not None and state.values["select"] == self.select:
            value, step = state.values["best"]
            best = copy.deepcopy(method)
            load_method(best, state.tensors)
            self.best = (float(value), int(step), best)

    def _score(self, method: Method, step: int) -> None:
        self._evaluated = step
        if not self._of_use:
            return
        with self.during(SCORING):
            values = self._scores(method, "target")
            if self.select in values and (self.best is None or values[self.select] > self.best[0]):
                self.best = (values[self.select], step, copy.deepcopy(method))
            self._record(method, step, values, "target")

    def _scores(self, method: Method, stream: Stream) -> dict[str, float]:
        device = next(method.parameters()).device
        evidence = collect(method.streams, self.held_out, self.target, target_stream=stream, device=device)
        return scores_of(evidence, QUICK if self.select in ("last", *QUICK) else (*QUICK, self.select))

    def _record(self, method: Method, step: int, values: dict[str, float], stream: Stream) -> None:
        if self.metrics is None:
            return
        self.metrics.write("scores", step=step, values=values)
        shown = {"source, held out": 100.0 * values["source_accuracy"]} if self.has_source else {}
        if self.evaluation is not None:
            shown[self.evaluation.name] = accuracy(method, replace(self.evaluation, stream=stream))
        self.metrics.write("accuracy", step=step, values=shown)


def _part(evaluation: Evaluation, images: int) -> Evaluation:
    chosen = subset(len(evaluation.data.images), images, seed=0)
    return replace(evaluation, data=part_of(evaluation.data, chosen))


def scores_of(evidence: Evidence, names: tuple[str, ...]) -> dict[str, float]:
    """The named scores, on scales that do not depend on how many images there are; one that needs more is left out."""
    found = {}
    for name in names:
        try:
            found[name] = comparable(name, score(name, evidence), evidence)
        except DataError:
            continue
    return found
