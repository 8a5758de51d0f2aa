"""What a run tells others while it goes on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from residapt.errors import TrainingError
from residapt.rank import RankChange
from residapt.train.method import Method


@dataclass(frozen=True)
class StepInfo:
    """One logged step: losses and watched numbers by name."""

    step: int
    steps: int
    values: dict[str, float]
    ranks: dict[str, tuple[int, int]]


class Callback:
    """Override what you need; the order of callbacks is the order in which they are called."""

    def on_start(self, method: Method, step: int, steps: int) -> None:
        """Training begins (or goes on) at ``step``."""

    def on_log(self, method: Method, info: StepInfo) -> None:
        """Every ``log_every`` steps, and at the last."""

    def on_ranks(self, method: Method, step: int, changes: list[RankChange]) -> None:
        """Ranks have fallen."""

    def on_notice(self, method: Method, step: int, notice: str) -> None:
        """Something a person should know, in plain words."""

    def on_step(self, method: Method, step: int) -> None:
        """After every step, counted from 1."""

    def on_end(self, method: Method, step: int) -> None:
        """Training has ended after ``step`` steps."""

    def on_failure(self, method: Method, step: int, error: TrainingError) -> None:
        """Training cannot go on after ``step`` good steps; the error is raised next."""

    def notices(self) -> list[str]:
        """What this callback wants people to know, once; the trainer passes it to ``on_notice`` of all."""
        return []


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

    def on_log(self, method: Method, info: StepInfo) -> None:
        """Pass on."""
        for item in self.items:
            item.on_log(method, info)

    def on_ranks(self, method: Method, step: int, changes: list[RankChange]) -> None:
        """Pass on."""
        for item in self.items:
            item.on_ranks(method, step, changes)

    def on_notice(self, method: Method, step: int, notice: str) -> None:
        """Pass on."""
        for item in self.items:
            item.on_notice(method, step, notice)

    def on_step(self, method: Method, step: int) -> None:
        """Pass on."""
        for item in self.items:
            item.on_step(method, step)

    def on_end(self, method: Method, step: int) -> None:
        """Pass on."""
        for item in self.items:
            item.on_end(method, step)

    def on_failure(self, method: Method, step: int, error: TrainingError) -> None:
        """Pass on."""
        for item in self.items:
            item.on_failure(method, step, error)

    def notices(self) -> list[str]:
        """Collect from all."""
        return [notice for item in self.items for notice in item.notices()]
