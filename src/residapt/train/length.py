"""How long a training is, and how far it has come: every schedule follows from this."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Length:
    """Number of steps of a training, which may change; progress then continues from where it is to 1.

    Example:
        >>> from residapt.train.length import Length
        >>> whole = Length(100)
        >>> whole.progress(50)
        0.5
        >>> shorter = whole.changed(50, 60)  # ten steps for the second half
        >>> shorter.progress(50), shorter.progress(55), shorter.progress(60)
        (0.5, 0.75, 1.0)
    """

    steps: int
    """Number of the last step."""
    since: int = 0
    """The step after which that was last changed."""
    done: float = 0.0
    """Progress after that step."""

    def progress(self, step: int) -> float:
        """Part of the training that lies before ``step``, from 0 to 1."""
        return self.done + (1.0 - self.done) * ((step - self.since) / max(self.steps - self.since, 1))

    @property
    def speed(self) -> float:
        """Progress in a step, in whole trainings."""
        return (1.0 - self.done) / max(self.steps - self.since, 1)

    def changed(self, step: int, steps: int) -> Length:
        """The length where after ``step`` the number of steps is another one."""
        return Length(max(steps, step), step, self.progress(step))
