"""Accuracy along a run, for the record."""

from __future__ import annotations

from residapt.evaluate.predict import Evaluation, accuracy
from residapt.train.callbacks import Callback, CallbackState
from residapt.train.method import Method


class Curve(Callback):
    """Accuracy along the run, for the record; it is never fed back into training."""

    def __init__(self, evaluations: list[Evaluation], every: int) -> None:
        self.evaluations, self.every = evaluations, every
        self.points: list[dict[str, float]] = []

    def on_start(self, method: Method, step: int, steps: int) -> None:
        """A new training has no points yet; those of a resumed one are restored afterwards."""
        self.points = []

    def reads(self, step: int) -> bool:
        """When an evaluation is due."""
        return self.every > 0 and step % self.every == 0

    def on_step(self, method: Method, step: int) -> None:
        """Evaluate when due."""
        if self.reads(step):
            self._add(method, step)

    def on_end(self, method: Method, step: int) -> None:
        """Evaluate at the end, once."""
        if not self.points or self.points[-1]["step"] != step:
            self._add(method, step)

    def state(self) -> CallbackState:
        """The points so far."""
        return CallbackState({"points": self.points})

    def restore(self, method: Method, state: CallbackState) -> None:
        """Continue after the points so far."""
        self.points = [dict(point) for point in state.values["points"]]

    def measure(self, method: Method) -> dict[str, float]:
        """The numbers of one point; override it to record more."""
        return {evaluation.name: accuracy(method, evaluation) for evaluation in self.evaluations}

    def _add(self, method: Method, step: int) -> None:
        self.points.append({"step": step, **self.measure(method)})
