"""Callbacks, which hear of what happens in a training."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from residapt.errors import ResidaptError
from residapt.rank import RankChange
from residapt.train.method import Method

if TYPE_CHECKING:
    from residapt.train.trainer import Trainer


@dataclass(frozen=True)
class StepInfo:
    """One logged step: losses and watched numbers by name."""

    step: int
    steps: int
    values: dict[str, float]
    ranks: dict[str, tuple[int, int]]


@dataclass(frozen=True)
class RecoveryInfo:
    """What showed that training had diverged, which state was restored, and how training continues."""

    sign: str
    """The number that showed it: a loss by name, or the norm of the gradients."""
    value: float
    """That number."""
    back_to: int
    """The step whose state was restored."""
    stopped: bool
    """Whether training ends there."""
    rate_factor: float
    """Factor of learning rates and of the discrepancy's weight from now on."""
    clip: float | None
    """Largest gradient norm from now on."""


@dataclass(frozen=True)
class CallbackState:
    """What a callback needs to resume after a stop: values that JSON can hold, and tensors by name."""

    values: dict[str, Any]
    tensors: dict[str, Tensor] = field(default_factory=dict)


class Callback:
    """Override what you need; callbacks are called in their order.

    Example:
        >>> class Losses(Callback):
        ...     def on_log(self, method, info):
        ...         print(info.step, info.values)
        >>> callbacks = [Losses()]  # for residapt.adapt(..., callbacks=callbacks)
    """

    def on_start(self, method: Method, step: int, steps: int) -> None:
        """Training begins (or resumes) at ``step``."""

    def on_length(self, method: Method, step: int, steps: int) -> None:
        """The number of steps was changed after ``step``; there are ``steps`` in all now."""

    def on_log(self, method: Method, info: StepInfo) -> None:
        """Every ``log_every`` steps, and at the last."""

    def on_ranks(self, method: Method, step: int, changes: list[RankChange]) -> None:
        """Ranks have fallen."""

    def on_note(self, method: Method, step: int, note: str) -> None:
        """Something a person should know, in plain words."""

    def on_recovery(self, method: Method, step: int, info: RecoveryInfo) -> None:
        """Training has diverged and went back to an earlier state."""

    def on_step(self, method: Method, step: int) -> None:
        """After every step, counted from 1."""

    def reads(self, step: int) -> bool:
        """Whether :meth:`on_step` or :meth:`on_settled` reads the method's tensors after that step.

        On an accelerator the losses of several steps are read together. Where this is true they are read
        before, so that a training that has diverged goes back first; otherwise the last few steps may be done again.
        """
        return False

    def on_end(self, method: Method, step: int) -> None:
        """Training has ended after ``step`` steps."""

    def on_failure(self, method: Method, step: int, error: ResidaptError) -> None:
        """Training cannot continue after ``step`` good steps; the error is raised next."""

    def new_notes(self) -> list[str]:
        """What this callback wants people to know, once; the trainer passes it to ``on_note`` of all."""
        return []

    def on_settled(self, trainer: Trainer) -> None:
        """Before the first step and after every step, once all other callbacks have run: the moment to save."""

    def on_interrupt(self, trainer: Trainer) -> None:
        """Training stops after a signal, between two steps."""

    def resume_hint(self) -> str:
        """How to resume after a stop, for messages; empty if this callback has no part in it."""
        return ""

    def state(self) -> CallbackState | None:
        """What has to be in a checkpoint; None if there is nothing."""
        return None

    def restore(self, method: Method, state: CallbackState) -> None:
        """Restore what :meth:`state` returned; called after ``on_start``."""


@dataclass
class Callbacks(Callback):
    """Several callbacks as one."""

    items: list[Callback] = field(default_factory=list)

    @classmethod
    def of(cls, items: Iterable[Callback]) -> Callbacks:
        """Collect callbacks."""
        return cls(list(items))

    def on_start(self, method: Method, step: int, steps: int) -> None:
        """Pass on."""
        for item in self.items:
            item.on_start(method, step, steps)

    def on_length(self, method: Method, step: int, steps: int) -> None:
        """Pass on."""
        for item in self.items:
            item.on_length(method, step, steps)

    def on_log(self, method: Method, info: StepInfo) -> None:
        """Pass on."""
        for item in self.items:
            item.on_log(method, info)

    def on_ranks(self, method: Method, step: int, changes: list[RankChange]) -> None:
        """Pass on."""
        for item in self.items:
            item.on_ranks(method, step, changes)

    def on_note(self, method: Method, step: int, note: str) -> None:
        """Pass on."""
        for item in self.items:
            item.on_note(method, step, note)

    def on_recovery(self, method: Method, step: int, info: RecoveryInfo) -> None:
        """Pass on."""
        for item in self.items:
            item.on_recovery(method, step, info)

    def on_step(self, method: Method, step: int) -> None:
        """Pass on."""
        for item in self.items:
            item.on_step(method, step)

    def reads(self, step: int) -> bool:
        """Whether any of them does."""
        return any(item.reads(step) for item in self.items)

    def on_end(self, method: Method, step: int) -> None:
        """Pass on."""
        for item in self.items:
            item.on_end(method, step)

    def on_failure(self, method: Method, step: int, error: ResidaptError) -> None:
        """Pass on."""
        for item in self.items:
            item.on_failure(method, step, error)

    def new_notes(self) -> list[str]:
        """Collect from all."""
        return [note for item in self.items for note in item.new_notes()]

    def on_settled(self, trainer: Trainer) -> None:
        """Pass on."""
        for item in self.items:
            item.on_settled(trainer)

    def on_interrupt(self, trainer: Trainer) -> None:
        """Pass on."""
        for item in self.items:
            item.on_interrupt(trainer)

    def resume_hint(self) -> str:
        """The first there is."""
        return next((hint for item in self.items if (hint := item.resume_hint())), "")

    def states(self) -> dict[str, CallbackState]:
        """The states of all that have one, by name."""
        found = ((name, item.state()) for name, item in self._named().items())
        return {name: state for name, state in found if state is not None}

    def restore_states(self, method: Method, states: dict[str, CallbackState]) -> None:
        """Give each its own state; one that was not there when the states were taken keeps its start."""
        for name, item in self._named().items():
            if name in states:
                item.restore(method, states[name])

    def _named(self) -> dict[str, Callback]:
        """By the name of the class, numbered where there are several."""
        named: dict[str, Callback] = {}
        for item in self.items:
            kind = type(item).__name__
            same = sum(name.partition("-")[0] == kind for name in named)
            named[f"{kind}-{same}" if same else kind] = item
        return named
