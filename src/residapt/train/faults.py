"""What can go wrong outside the mathematics, in plain words: memory, disk, files that have gone."""

from __future__ import annotations

from residapt.errors import DataError, Interrupted, ResidaptError, TrainingError, is_out_of_memory


def explain(error: Exception, *, step: int, steps: int, batch_size: int) -> ResidaptError | None:
    """The error as one that says what to do; None for what is a mistake in a program and needs its traceback."""
    if isinstance(error, ResidaptError):
        return error
    where = f"after step {step} of {steps}"
    if is_out_of_memory(error):
        return TrainingError(
            f"there was not enough memory for the next batch {where}. Lower train.batch_size (it is {batch_size})."
        )
    if isinstance(error, OSError):
        name = f" '{error.filename}'" if error.filename else ""
        return DataError(f"a file{name} could not be used {where}: {error.strerror or error}.")
    return None


def with_hint(error: ResidaptError, hint: str) -> ResidaptError:
    """The same error, followed by how to resume."""
    if not hint or isinstance(error, Interrupted):
        return error
    return type(error)(f"{error} {hint}")
