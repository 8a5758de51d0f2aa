"""Back to the last good state when a training diverges, and on from there with gentler settings.

Every :data:`EVERY` steps the whole state of the training is copied to main memory: networks, transforms, helpers,
averages, the optimiser's moments. The two latest copies are kept, and divergence goes back to the older one, since it
is seen some steps after it has begun. The step counter is not turned back: batches and schedules continue, so that a
run has as many steps as it was given. Everything is in the checkpoint, so that a resumed run does the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from residapt.errors import TrainingError
from residapt.train.config import TrainConfig
from residapt.train.divergence import Divergence, DivergenceDetector
from residapt.train.method import Method
from residapt.train.state import Numbers, load_method, load_optimizer, method_tensors, optimizer_state

EVERY = 50
"""Steps between two copies."""
GENTLER = 0.5
"""Factor of learning rates, of the discrepancy's weight and of the clipping norm, each time."""


@dataclass(frozen=True)
class Snapshot:
    """The state of a training after a step."""

    step: int
    tensors: dict[str, Tensor]
    numbers: Numbers
    usual_norm: float | None
    """The gradients' norm until then."""


class Recovery:
    """The detector, the copies, and how much gentler the settings have become."""

    def __init__(self, method: Method, optimizer: Optimizer, *, classes: int, most: int, clip: float | None) -> None:
        self.method, self.optimizer, self.most, self.given_clip = method, optimizer, most, clip
        self.detector = DivergenceDetector(classes)
        self.count = 0
        """How often training has gone back."""
        self.clip = clip
        """Largest gradient norm now."""
        self.snapshots: list[Snapshot] = []

    @property
    def factor(self) -> float:
        """Factor of the learning rates."""
        return float(GENTLER**self.count)

    @property
    def exhausted(self) -> bool:
        """Whether training has gone back as often as it may."""
        return self.count >= self.most

    @property
    def at_start(self) -> bool:
        """Whether there is no good state but that before the first step."""
        return not self.snapshots or self.snapshots[0].step == 0

    def keep(self, step: int) -> None:
        """Copy the state after so many steps when it is time; call it before the next one."""
        if not self.most or step % EVERY or (self.snapshots and self.snapshots[-1].step == step):
            return
        moments, numbers = optimizer_state(self.method, self.optimizer)
        tensors = {f"method:{name}": tensor for name, tensor in method_tensors(self.method).items()}
        tensors |= {f"optimizer:{name}": tensor for name, tensor in moments.items()}
        copies = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
        numbers = {name: dict(values) for name, values in numbers.items()}
        self.snapshots = [*self.snapshots[-1:], Snapshot(step, copies, numbers, self.detector.usual_norm)]

    def check(self, values: Mapping[str, float]) -> Divergence | None:
        """Judge the numbers of a step."""
        return self.detector.check(values) if self.most else None

    def go_back(self) -> Snapshot:
        """Bring back the last good state; the settings become gentler unless that was done as often as it may be."""
        good = self.snapshots[0]
        load_method(self.method, _part(good.tensors, "method"), self.optimizer)
        load_optimizer(self.method, self.optimizer, _part(good.tensors, "optimizer"), good.numbers)
        self.snapshots = [good]
        self.detector.forget_recent()
        if not self.exhausted:
            self._be_gentler(self.count + 1, good.usual_norm)
        return good

    def message(self, divergence: Divergence, step: int, good: Snapshot, *, stopped: bool) -> str:
        """What people should know after going back."""
        text = f"training diverged at step {step}: {divergence.text}. The state of step {good.step} was restored."
        if stopped:
            return f"{text} Gentler settings were tried {self.count} times: training ends with that state."
        return (
            f"{text} Learning rates and discrepancy weight are now {self.factor:g} times their set values, "
            f"gradients at most {self.clip:.3g}."
        )

    def hopeless(self, divergence: Divergence, step: int, steps: int, config: TrainConfig) -> TrainingError:
        """Where there is nothing to go back to, and gentler settings have not helped."""
        tried = f" after {self.count} attempts with gentler settings" if self.count else ""
        return TrainingError(
            f"{divergence.text} at step {step} of {steps}{tried}. Lower the learning rates "
            f"(train.network.lr = {config.network.lr:g}) or set train.clip = 1."
        )

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Values that JSON can hold, and tensors by name."""
        copies = [
            {"step": good.step, "numbers": good.numbers, "usual_norm": good.usual_norm} for good in self.snapshots
        ]
        values = {"count": self.count, "clip": self.clip, "detector": self.detector.state(), "snapshots": copies}
        tensors = {f"{i}:{name}": t for i, good in enumerate(self.snapshots) for name, t in good.tensors.items()}
        return values, tensors

    def restore(self, values: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Restore a state."""
        self.count, self.clip = int(values["count"]), values["clip"]
        self.method.pull = self.factor
        self.detector.restore(values["detector"])
        self.snapshots = [
            Snapshot(int(good["step"]), _part(tensors, str(place)), good["numbers"], good["usual_norm"])
            for place, good in enumerate(values["snapshots"])
        ]

    def _be_gentler(self, count: int, usual_norm: float | None) -> None:
        self.count = count
        self.method.pull = self.factor
        # Without a limit of its own a training gets one that its gradients until then would have reached now and then.
        limit = self.given_clip or (1.0 if usual_norm is None else usual_norm / GENTLER)
        self.clip = limit * self.factor


def _part(tensors: Mapping[str, Tensor], kind: str) -> dict[str, Tensor]:
    return {name.partition(":")[2]: tensor for name, tensor in tensors.items() if name.partition(":")[0] == kind}
