"""The time allowed, kept: a training gets fewer steps where the machine is slower than it was measured, or more."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Literal

from residapt.methods.rounds import Round
from residapt.run.clock import RunClock, StepCost
from residapt.run.pace import EVALUATION_SHARE, FEWEST_STEPS, SOURCE_SHARE, shares, trainings
from residapt.run.request import Setup
from residapt.train import Callback, Method, Trainer
from residapt.train.callbacks import CallbackState

CHECKS = 50
"""How often in a training the time that is left is compared with the steps that are left."""
WINDOW = 8
"""The pace is that since as many checks ago."""
SETTLED = 3
"""Checks before the number of steps is changed for the first time."""
NEAR = 0.03
"""A change of the remaining steps that is not worth it."""
TRAININGS = {"pretrain": "source training", "train": "the adaptation"}
NOTABLE = 0.1
"""A change of the number of steps that a note mentions."""


class TimeLimit(Callback):
    """Change the number of steps so that a training ends when it has to, on a machine that others use as well.

    Args:
        group: Settings of the training, ``pretrain`` or ``train``.
        clock: Of the run.
        seconds: What is left for this training, from how many times longer steps take than they were measured.
        share: Length of the training to that of the settings.
        average: Mean of values over all processes, which must come to the same number of steps.
    """

    def __init__(
        self,
        group: Literal["pretrain", "train"],
        clock: RunClock,
        seconds: Callable[[float], float],
        *,
        share: float = 1.0,
        average: Callable[[dict[str, float]], dict[str, float]] = dict,
    ) -> None:
        self.group, self.clock, self.seconds, self.share, self.average = group, clock, seconds, share, average
        self._marks: deque[tuple[float, float]] = deque(maxlen=WINDOW + 1)
        """The time, and the seconds that the steps until then would have taken as they were measured."""
        self._measured = 0.0
        self._checks = self._planned = self._last = 0
        self._noted = False
        self._waiting: list[str] = []

    @property
    def cost(self) -> StepCost:
        """Seconds of a step as they were measured."""
        return self.clock.pace.adapt if self.group == "train" else self.clock.pace.source

    def on_start(self, method: Method, step: int, steps: int) -> None:
        """Remember the plan."""
        self._planned, self._last = steps, step

    def on_settled(self, trainer: Trainer) -> None:
        """Compare what is left of the time with what is left of the steps, now and then."""
        if self.group not in self.clock.wanted:
            return
        step = trainer.step
        if self._marks and step > self._last:
            self._measured += self.cost.at(trainer.length.progress(step - 1))
        if self._marks and step < self._last + max(1, self._planned // CHECKS):
            return
        self._last = step
        self._marks.append((time.monotonic(), self._measured))
        if len(self._marks) > 1:
            self._checks += 1
            self._compare(trainer)

    def new_notes(self) -> list[str]:
        """That there will be fewer steps, or more."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def state(self) -> CallbackState:
        """How much of the time has gone."""
        return CallbackState({"clock": self.clock.state(), "noted": self._noted})

    def restore(self, method: Method, state: CallbackState) -> None:
        """Restore what was left of the time."""
        self.clock.restore(state.values["clock"])
        self._noted = bool(state.values["noted"])

    def _compare(self, trainer: Trainer) -> None:
        (began, before), (now, measured) = self._marks[0], self._marks[-1]
        slower = (now - began) / max(measured - before, 1e-9)
        found = self.average({"slower": slower, "seconds": self.seconds(slower)})
        if self._checks < SETTLED or trainer.step >= trainer.length.steps:
            return
        progress = trainer.length.progress(trainer.step)
        # The first checks of predictions and scores lie ahead, so that the pace does not contain them yet.
        ahead = 1.0 + EVALUATION_SHARE if self._checks <= WINDOW else 1.0
        per_step = found["slower"] * ahead * self.cost.mean(progress)
        possible = trainer.step + max(0, int(found["seconds"] / max(per_step, 1e-9)))
        wanted = max(1, round(self.share * self.clock.wanted[self.group]))
        steps = max(min(wanted, max(possible, FEWEST_STEPS)), trainer.step)
        if abs(steps - trainer.length.steps) > NEAR * (trainer.length.steps - trainer.step):
            trainer.change_steps(steps)
            self._tell(steps, per_step)

    def _tell(self, steps: int, per_step: float) -> None:
        if self._noted or abs(steps - self._planned) <= NOTABLE * self._planned:
            return
        self._noted = True
        self._waiting.append(
            f"{TRAININGS[self.group]} takes about {steps} steps instead of {self._planned}, because a step takes "
            f"{per_step:.2g} s now and the run may take {self.clock.minutes:g} minutes."
        )


def source_limit(setup: Setup) -> TimeLimit:
    """For training the source network: a share of the time for both trainings, or all that will be left."""
    config, clock = setup.config, setup.clock
    begun = clock.used

    def seconds(slower: float) -> float:
        left, spent = clock.left(slower), clock.used - begun
        steps = clock.wanted.get("train", config.train.steps)
        needed = trainings(config) * steps * clock.pace.adapt.mean()
        return max(left - slower * needed, SOURCE_SHARE * (left + spent) - spent)

    return TimeLimit("pretrain", clock, seconds, average=setup.engine.average_values)


def adaptation_limit(setup: Setup, turn: Round) -> TimeLimit:
    """For one of the trainings of the adaptation: its part of the time that is left."""
    share, rest = shares(setup.config, turn.number)
    return TimeLimit(
        "train",
        setup.clock,
        lambda slower: share / rest * setup.clock.left(slower),
        share=share,
        average=setup.engine.average_values,
    )
