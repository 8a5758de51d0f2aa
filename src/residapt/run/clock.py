"""How long things take on this machine, and when a run has to end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

QUICKEST, SLOWEST = 0.5, 8.0
"""Limits of how many times longer than measured the end of a run is expected to take."""


@dataclass(frozen=True)
class StepCost:
    """Seconds of a training step, which may be another number from some progress on.

    Example:
        >>> cost = StepCost(1.0, 3.0, change=0.5)
        >>> cost.at(0.2), cost.mean(), cost.mean(0.75)
        (1.0, 2.0, 3.0)
    """

    early: float = 0.0
    late: float = 0.0
    change: float = 1.0
    """The progress from which on a step takes ``late``."""

    def at(self, progress: float) -> float:
        """Seconds of the step at this progress."""
        return self.late if progress >= self.change else self.early

    def mean(self, progress: float = 0.0) -> float:
        """Mean of all steps from this progress on."""
        if progress >= self.change:
            return self.late
        return (self.early * (self.change - progress) + self.late * (1.0 - self.change)) / (1.0 - progress)


@dataclass(frozen=True)
class Pace:
    """Seconds that things take on this machine."""

    source: StepCost = StepCost()
    """A step of training the source network."""
    adapt: StepCost = StepCost()
    """A step of the adaptation."""
    forward: float = 0.0
    """Predictions for one image."""
    views: float = 0.0
    """The outputs of frozen stages for all images."""
    busy: float = 1.0
    """Seconds that go by while this program is given one of a processor: more than 1 where others use it as well."""


@dataclass(eq=False)
class RunClock:
    """When the run has to end, and what a training may therefore take."""

    minutes: float = 0.0
    """Time allowed; 0 sets no limit."""
    started: float = field(default_factory=time.monotonic)
    """When the run began, or would have begun if it had not been stopped."""
    wanted: dict[str, int] = field(default_factory=dict)
    """Steps that the data ask for, by group of settings, where nobody has set them: only these follow from the time."""
    pace: Pace = Pace()
    """How long things take here."""
    ending: float = 0.0
    """Seconds of the final scores and the report."""

    @property
    def used(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.started

    def left(self, slower: float = 1.0) -> float:
        """Seconds for training, where things take so many times longer than they were measured."""
        return 60.0 * self.minutes - self.used - min(max(slower, QUICKEST), SLOWEST) * self.ending

    def state(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        return {"used": self.used, "wanted": self.wanted, "pace": asdict(self.pace), "ending": self.ending}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the time that was left when the run was stopped."""
        costs = {name: StepCost(**state["pace"][name]) for name in ("source", "adapt")}
        self.started = time.monotonic() - float(state["used"])
        self.wanted = {name: int(steps) for name, steps in state["wanted"].items()}
        self.pace, self.ending = Pace(**{**state["pace"], **costs}), float(state["ending"])
