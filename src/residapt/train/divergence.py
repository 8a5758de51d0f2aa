r"""Recognising that a training diverges, from the numbers of each step; :mod:`.recovery` does something about it.

Adversarial training can run away: with gradient reversal the network maximises the domain classifier's loss, and a
network that outruns the classifier finds no end there. What is healthy is noisy, though, so each number is judged by
its median over the latest steps (:data:`WINDOWS`), and against the lowest such median of this training:

* the classification loss has risen by more than :math:`0.3 \log C`, three tenths of what guessing costs;
* the domain classifier's loss is above :math:`2\log 2`, twice what guessing costs, and twice its lowest. In the
  first steps it may swing around guessing, above the limit for some 20 steps at a time, and come to rest by itself: so
  it is looked at for twice as long;
* the norm of the gradients is a hundred times as large as usual.

A number that is not finite, or a classification loss of a hundred times guessing, needs no confirmation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

GRADIENT = "gradient_norm"
"""Name of the gradients' norm among the numbers of a step."""
WINDOWS = {"class": 20, "domain": 40, GRADIENT: 20}
"""Steps whose median is judged."""
CLASS_RISE = 0.3
"""Largest rise of the classification loss, as a share of log(classes)."""
DOMAIN_LIMIT = 2.0
"""Largest loss of the domain classifier, as a multiple of log 2 and of its lowest."""
GRADIENT_LIMIT = 100.0
"""Largest gradient norm, as a multiple of the usual one."""
AT_ONCE = 100.0
"""A classification loss of so many times log(classes) is divergence without confirmation."""
USUAL_STEPS = 100
"""Steps over which the usual gradient norm is averaged."""


@dataclass(frozen=True)
class Divergence:
    """Which number says that training has diverged; the text is the middle of a sentence."""

    name: str
    value: float
    text: str

    gross: bool = False
    """Whether a single step has shown it: the number is not finite, or beyond all measure."""


class DivergenceDetector:
    """Checks the numbers of each step: ``class``, ``domain`` and :data:`GRADIENT`, those that there are."""

    def __init__(self, classes: int) -> None:
        self.classes = max(classes, 2)
        self.recent: dict[str, list[float]] = {}
        self.lowest: dict[str, float] = {}
        self.usual_log, self.seen = 0.0, 0

    @property
    def usual_norm(self) -> float | None:
        """The geometric mean of the gradient norm over the latest steps; None before there are enough."""
        if self.seen < USUAL_STEPS // 2:
            return None
        # As in Adam: the average started at 0.
        return math.exp(self.usual_log / (1 - (1 - 1 / USUAL_STEPS) ** self.seen))

    def check(self, values: Mapping[str, float]) -> Divergence | None:
        """Take in the numbers of a step and judge them."""
        for name, value in values.items():
            if not math.isfinite(value):
                return not_finite(name, value)
        for name, value in values.items():
            self.recent[name] = [*self.recent.get(name, [])[1 - WINDOWS[name] :], value]
        found = self._class(values) or self._domain() or self._gradient()
        self._remember(values)
        return found

    def forget_recent(self) -> None:
        """After going back: the latest steps are undone, what was reached before them is not."""
        self.recent = {}

    def state(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        return {"recent": self.recent, "lowest": self.lowest, "usual_log": self.usual_log, "seen": self.seen}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state."""
        self.recent = {name: list(values) for name, values in state["recent"].items()}
        self.lowest = dict(state["lowest"])
        self.usual_log, self.seen = float(state["usual_log"]), int(state["seen"])

    def _median(self, name: str) -> float | None:
        values = self.recent.get(name, [])
        return median(values) if len(values) == WINDOWS[name] else None

    def _remember(self, values: Mapping[str, float]) -> None:
        for name in values:
            middle = self._median(name)
            if middle is not None:
                self.lowest[name] = min(middle, self.lowest.get(name, math.inf))
        if GRADIENT in values:
            self.usual_log += (math.log(max(values[GRADIENT], 1e-30)) - self.usual_log) / USUAL_STEPS
            self.seen += 1

    def _class(self, values: Mapping[str, float]) -> Divergence | None:
        guess, now, best = math.log(self.classes), self._median("class"), self.lowest.get("class")
        if values.get("class", 0.0) > AT_ONCE * guess:
            return Divergence("class", values["class"], f"the classification loss is {values['class']:.3g}", True)
        if now is None or best is None or now <= best + CLASS_RISE * guess:
            return None
        return Divergence("class", now, f"the classification loss rose from {best:.3g} to {now:.3g}")

    def _domain(self) -> Divergence | None:
        now, best = self._median("domain"), self.lowest.get("domain")
        if now is None or best is None or now <= DOMAIN_LIMIT * max(math.log(2.0), best):
            return None
        text = f"the domain classifier's loss rose from {best:.3g} to {now:.3g}, where guessing gives {math.log(2):.3g}"
        return Divergence("domain", now, text)

    def _gradient(self) -> Divergence | None:
        now, usual = self._median(GRADIENT), self.usual_norm
        if now is None or usual is None or now <= GRADIENT_LIMIT * usual:
            return None
        return Divergence(GRADIENT, now, f"the norm of the gradients rose from {usual:.3g} to {now:.3g}")


def not_finite(name: str, value: float) -> Divergence:
    """What a number that is none says."""
    what = "the norm of the gradients" if name == GRADIENT else f"the loss '{name}'"
    return Divergence(name, value, f"{what} is {value:g}", gross=True)
