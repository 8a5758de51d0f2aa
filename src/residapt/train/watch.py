"""Whether training has diverged, from the numbers of each step, which are read together every so many steps.

Reading a number waits until the device has computed it, and an accelerator then has nothing to do until the next step
has been sent to it. So the numbers stay where they are until they are due. Whoever uses the weights in between (scores,
checkpoints, rank selection) has them read first; where they show that training had diverged some steps ago, it
continues from that step as if it had been seen at once. On a CPU nothing waits, and every step is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import Tensor

from residapt.distributed import Engine
from residapt.train.divergence import GRADIENT, Divergence, not_finite

if TYPE_CHECKING:
    from residapt.train.method import Losses
    from residapt.train.recovery import Recovery

TOGETHER = 10
"""Steps whose numbers are read together on an accelerator; divides the steps between two copies of the state."""
JUDGED = ("class", "domain")
"""Losses that the detector reads, besides the norm of the gradients."""
_TOTAL = "total"


class Watch:
    """The numbers of steps that have not been checked yet."""

    def __init__(self, engine: Engine, recovery: Recovery) -> None:
        self.engine, self.recovery = engine, recovery
        self.every = 1 if engine.device.type == "cpu" else TOGETHER
        """Steps that are read together."""
        self._waiting: list[tuple[int, dict[str, Tensor]]] = []

    def add(self, step: int, losses: Losses, norm: Tensor) -> None:
        """Keep the numbers of a step."""
        numbers = {**losses.parts, _TOTAL: losses.total, GRADIENT: norm}
        self._waiting.append((step, {name: number.detach() for name, number in numbers.items()}))

    def due(self, step: int) -> bool:
        """Whether a check is due."""
        return step % self.every == 0

    def check(self) -> tuple[int, Divergence] | None:
        """Read what waits: the first step that shows divergence, and what shows it."""
        waiting, self._waiting = self._waiting, []
        numbers = iter(self.engine.read([tensor for _, values in waiting for tensor in values.values()]))
        for step, values in waiting:
            found = self._judge({name: next(numbers) for name in values})
            if found is not None:
                return step, found
        return None

    def _judge(self, values: Mapping[str, float]) -> Divergence | None:
        losses = {name: value for name, value in values.items() if name != GRADIENT}
        if not math.isfinite(losses[_TOTAL]):
            return not_finite(*next((name, value) for name, value in losses.items() if not math.isfinite(value)))
        watched = {name: losses[name] for name in JUDGED if name in losses}
        norm = values[GRADIENT]
        # In fp16 a norm that is not finite is an overflow, which the loss scale follows.
        if math.isfinite(norm) or not self.engine.scaler.is_enabled():
            watched[GRADIENT] = norm
        if not math.isfinite(watched.get(GRADIENT, 0.0)):
            return not_finite(GRADIENT, norm)
        return self.recovery.check(watched)
