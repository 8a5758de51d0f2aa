"""What residapt raises. Each message gives the value received, where, and what to do about it."""

from __future__ import annotations


class ResidaptError(Exception):
    """Base of every error a user can cause; the command line prints it and exits with code 2.

    Example:
        >>> issubclass(ConfigError, ResidaptError)
        True
    """


class ConfigError(ResidaptError, ValueError):
    """A setting has a value that cannot be used.

    Example:
        >>> import residapt
        >>> residapt.Config.parse({"rank": {"wieght": 1}})
        Traceback (most recent call last):
        residapt.errors.ConfigError: configuration: there is no setting 'rank.wieght'. Did you mean 'rank.weight'?
    """


class DataError(ResidaptError, ValueError):
    """A file, folder or tensor given as data cannot be used.

    Example:
        >>> import torch
        >>> from residapt.data.domains import TensorImages
        >>> TensorImages(torch.tensor([[float("nan")]]))
        Traceback (most recent call last):
        residapt.errors.DataError: ...image 0 contains NaN or infinity...
    """


class ModelError(ResidaptError, ValueError):
    """A network, layer pattern, adapter or checkpoint does not fit.

    Example:
        >>> import residapt, torch
        >>> residapt.TwoStream(torch.nn.Linear(4, 2), include=("conv9",))
        Traceback (most recent call last):
        residapt.errors.ModelError: transform.include: the pattern 'conv9' matches none of the 1 layers...
    """


class TrainingError(ResidaptError, RuntimeError):
    """Training cannot continue, for instance because a loss is not finite.

    Example:
        >>> try:
        ...     raise TrainingError("the classification loss is nan at step 3 of 9.")
        ... except ResidaptError as error:
        ...     print(error)
        the classification loss is nan at step 3 of 9.
    """


class Interrupted(ResidaptError):  # noqa: N818  (the user wanted it: it is no error)
    """A run was stopped by a signal after ``step`` steps; the message says how to resume it.

    Args:
        message: What happened, and how to resume.
        step: Steps that were completed.
        signal: Number of the signal; 2 is Ctrl-C.

    Example:
        >>> Interrupted("stopped by SIGTERM after step 5 of 9.", step=5, signal=15).step
        5
    """

    def __init__(self, message: str, *, step: int, signal: int = 2) -> None:
        super().__init__(message)
        self.step = step
        """Steps that were completed."""
        self.signal = signal
        """Number of that signal; 2 is Ctrl-C."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there was not enough memory; torch is not imported for it."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if kinds & {"MemoryError", "OutOfMemoryError"}:
        return True
    # On the CPU torch has no class of its own for it.
    text = str(error)
    return isinstance(error, RuntimeError) and ("can't allocate memory" in text or "not enough memory" in text)


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its type if it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
