"""Training of the source network: stops when the held-out source images gain nothing more, and keeps the best."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from torch import Tensor
from torch.nn import functional

from residapt.data.config import Balance
from residapt.data.domains import Labelled
from residapt.evaluate.predict import evaluating, predict_logits
from residapt.train.callbacks import Callback, CallbackState
from residapt.train.method import Method
from residapt.train.stopwatch import During, unnoticed
from residapt.train.trainer import Trainer


class EarlyStop(Exception):  # noqa: N818  (it is no error)
    """Raised out of the training loop when more steps would not help."""


@dataclass(frozen=True)
class HeldOut:
    """How the network does on held-out source images."""

    step: int
    accuracy: float
    """In per cent."""
    loss: float

    @property
    def key(self) -> tuple[float, float]:
        """Larger is better; the loss decides between equal accuracies, which are common near 100 %."""
        return self.accuracy, -self.loss


class EarlyStopping(Callback):
    """Check accuracy on held-out source images every so many steps; stop after ``patience`` checks without gain."""

    def __init__(
        self,
        held_out: Labelled,
        *,
        every: int,
        patience: int,
        balance: Balance = "as-is",
        during: During = unnoticed,
    ) -> None:
        self.during = during
        self.held_out, self.every, self.patience, self.balance = held_out, max(every, 1), patience, balance
        self.checks: list[HeldOut] = []
        self.best: HeldOut | None = None
        self._state: dict[str, Tensor] = {}
        self._steps = 0

    def on_start(self, method: Method, step: int, steps: int) -> None:
        """Learn how long the training is; check once, so that training never makes a network worse."""
        self._steps = steps
        self._check(method, step)

    def reads(self, step: int) -> bool:
        """When a check is due."""
        return step % self.every == 0

    def on_length(self, method: Method, step: int, steps: int) -> None:
        """The last step is another one."""
        self._steps = steps

    def on_step(self, method: Method, step: int) -> None:
        """Look when it is time."""
        if not self.reads(step) and step != self._steps:
            return
        self._check(method, step)
        waited = sum(check.step > self.best.step for check in self.checks) if self.best else 0
        if waited >= self.patience and step < self._steps:
            raise EarlyStop

    def bring_back_best(self, method: Method) -> None:
        """Give the method the best weights."""
        if self._state:
            method.load_state_dict(self._state)

    def state(self) -> CallbackState:
        """All checks, and the best weights."""
        best = None if self.best is None else asdict(self.best)
        return CallbackState({"checks": [asdict(check) for check in self.checks], "best": best}, dict(self._state))

    def restore(self, method: Method, state: CallbackState) -> None:
        """Restore the checks of the run so far."""
        self.checks = [HeldOut(**check) for check in state.values["checks"]]
        self.best = None if state.values["best"] is None else HeldOut(**state.values["best"])
        device = next(method.parameters()).device
        self._state = {name: tensor.to(device, copy=True) for name, tensor in state.tensors.items()}

    def _check(self, method: Method, step: int) -> None:
        with self.during("evaluating on held-out source images"):
            check = check_held_out(method, self.held_out, step, self.balance)
        self.checks.append(check)
        if self.best is None or check.key > self.best.key:
            self.best = check
            self._state = {name: tensor.detach().clone() for name, tensor in method.state_dict().items()}


def check_held_out(method: Method, held_out: Labelled, step: int = 0, balance: Balance = "as-is") -> HeldOut:
    """Accuracy and loss of the source stream; every image counts the same, or every class does."""
    device = next(method.parameters()).device
    with evaluating(method):
        logits = predict_logits(lambda x: method.predict(x, "source"), held_out.images, batch_size=128, device=device)
    right = logits.argmax(1) == held_out.labels
    if balance == "as-is":
        loss = functional.cross_entropy(logits, held_out.labels)
        return HeldOut(step, 100.0 * float(right.double().mean()), float(loss))
    # Many negatives must not decide alone: a network that never finds anything would seem best.
    counts = held_out.labels.bincount(minlength=logits.shape[1]).double()
    weights = 1.0 / (counts[held_out.labels] * (counts > 0).sum())
    losses = functional.cross_entropy(logits, held_out.labels, reduction="none")
    return HeldOut(step, 100.0 * float((weights * right).sum()), float((weights * losses).sum()))


def run_with_early_stopping(trainer: Trainer, stopping: EarlyStopping) -> HeldOut:
    """Train until the end or until it is of no use; the method then has its best weights."""
    trainer.callbacks.items.append(stopping)
    try:
        trainer.run()
    except EarlyStop:
        trainer.callbacks.on_end(trainer.method, trainer.step)
    stopping.bring_back_best(trainer.method)
    assert stopping.best is not None  # it checks once before the first step
    return stopping.best
