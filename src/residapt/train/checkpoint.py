"""Exact resume: after a stop at any point, training resumes from a checkpoint as if it had not stopped."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from residapt.distributed import STATISTICS
from residapt.errors import ModelError, TrainingError
from residapt.storage.checkpoint import (
    CheckpointLength,
    CheckpointRecord,
    folder_of,
    read_folder,
    remove_folder,
    remove_unfinished_checkpoints,
    steps_in,
    write_checkpoint_folder,
)
from residapt.train.callbacks import Callback, CallbackState
from residapt.train.length import Length
from residapt.train.method import Method
from residapt.train.state import load_method, load_optimizer, method_tensors, optimizer_state
from residapt.train.trainer import Trainer

KEPT = 2
"""Checkpoints that are kept: an older one in case the newest is damaged."""


class Checkpointer(Callback):
    """Save before the first step, every ``every`` steps, at the last, and when a signal stops training.

    ``command`` is the command that resumes it. Older checkpoints are removed unless ``keep``. Add it as the last
    callback.
    """

    def __init__(self, directory: Path, every: int, *, command: str = "", keep: bool = False) -> None:
        self.directory, self.every, self.command, self.keep = directory, every, command, keep
        self.saved = -1
        """The newest step that was saved or restored; -1 if there is none."""

    def on_start(self, method: Method, step: int, steps: int) -> None:
        """Remember the checkpoint to resume from."""
        self.saved = step if step > 0 else -1

    def reads(self, step: int) -> bool:
        """When a checkpoint is due."""
        return self.every > 0 and step % self.every == 0

    def on_settled(self, trainer: Trainer) -> None:
        """Save when it is time."""
        if self.reads(trainer.step) or (self.every and trainer.step == trainer.length.steps):
            self._save(trainer)

    def on_interrupt(self, trainer: Trainer) -> None:
        """Save at once; no process leaves before that is done."""
        try:
            self._save(trainer)
        finally:
            trainer.engine.wait()

    def resume_hint(self) -> str:
        """Which checkpoint there is, and how to resume from it."""
        if self.saved < 0:
            return ""
        how = f" Resume with: {self.command}" if self.command else f" It is in '{self.directory}'."
        return f"The checkpoint of step {self.saved} is complete.{how}"

    def _save(self, trainer: Trainer) -> None:
        if self.saved != trainer.step:
            if trainer.engine.is_main:
                save_checkpoint(trainer, self.directory, keep=self.keep)
            self.saved = trainer.step


def save_checkpoint(trainer: Trainer, directory: Path, *, keep: bool = False) -> None:
    """Write the trainer's state; older checkpoints go only when this one is complete, and not if they are kept."""
    trainer.settle()
    _check_finite(trainer)
    folder = folder_of(directory, trainer.step)
    try:
        remove_unfinished_checkpoints(directory)
        write_checkpoint_folder(folder, *_contents(trainer))
        _remove_others(directory, trainer.step, keep=keep)
    except OSError as error:
        reason = error.strerror or str(error)
        raise TrainingError(
            f"the checkpoint of step {trainer.step} cannot be written to '{directory}': {reason}. Make room there."
        ) from error


def restore_checkpoint(trainer: Trainer, directory: Path) -> int:
    """Bring a fresh trainer to the newest usable checkpoint, and give its step.

    A damaged one is skipped in favour of the one before, which is reported when training starts. Several processes all
    read the same one, so that the directory must be visible to all of them.
    """
    record, tensors = _newest_usable(trainer, directory)
    step = trainer.engine.agree(record.step)
    if step != record.step:
        record, tensors = read_folder(folder_of(directory, step))
    try:
        _load(trainer, record, tensors)
    except ModelError as error:
        raise ModelError(f"checkpoint '{folder_of(directory, step)}' does not fit: {error}") from None
    trainer.step = step
    return step


def load_weights_of(method: Method, directory: Path, step: int) -> None:
    """Bring a method to the weights of the checkpoint of a step."""
    _, tensors = read_folder(folder_of(directory, step))
    own = {name.removeprefix("method:"): tensor for name, tensor in tensors.items() if name.startswith("method:")}
    load_method(method, own)


def _newest_usable(trainer: Trainer, directory: Path) -> tuple[CheckpointRecord, dict[str, Tensor]]:
    problems = []
    for step in steps_in(directory):
        try:
            found = read_folder(folder_of(directory, step))
        except ModelError as error:
            problems.append(f"checkpoint of step {step} cannot be used: {error}")
            continue
        trainer.notes += [f"{problem} The one of step {step} was used instead." for problem in problems]
        return found
    if problems:
        raise ModelError(f"{problems[0]} There is no older one that can. Start the run again.")
    raise ModelError(f"'{directory}' holds no checkpoint. Start the run again.")


def _contents(trainer: Trainer) -> tuple[CheckpointRecord, dict[str, Tensor]]:
    method = trainer.method
    moments, numbers = optimizer_state(method, trainer.optimizer)
    tensors = {f"method:{name}": tensor for name, tensor in method_tensors(method).items()}
    tensors |= {f"optimizer:{name}": tensor for name, tensor in moments.items()}
    states = trainer.callbacks.states()
    for owner, state in states.items():
        tensors |= {f"callback:{owner}:{name}": tensor for name, tensor in state.tensors.items()}
    recovery, copies = trainer.recovery.state()
    tensors |= {f"recovery:{name}": tensor for name, tensor in copies.items()}
    record = CheckpointRecord(
        step=trainer.step,
        method=method.name,
        train=trainer.config.model_dump(mode="json"),
        optimizer=numbers,
        scaler=trainer.engine.scaler.state_dict(),
        callbacks={owner: state.values for owner, state in states.items()},
        recovery=recovery,
        paired=method.streams.paired,
        length=CheckpointLength(**asdict(trainer.length)),
    )
    return record, tensors


def _load(trainer: Trainer, record: CheckpointRecord, tensors: dict[str, Tensor]) -> None:
    if record.method != trainer.method.name:
        raise ModelError(f"it is of method '{record.method}', but this run is of '{trainer.method.name}'.")
    parts: dict[str, dict[str, Tensor]] = {"method": {}, "optimizer": {}, "callback": {}, "recovery": {}}
    for full, tensor in tensors.items():
        kind, _, name = full.partition(":")
        if kind not in parts:
            raise ModelError(f"unexpected tensor '{full}'.")
        parts[kind][name] = tensor
    load_method(trainer.method, parts["method"], trainer.optimizer)
    load_optimizer(trainer.method, trainer.optimizer, parts["optimizer"], record.optimizer)
    if record.scaler and trainer.engine.scaler.is_enabled():
        trainer.engine.scaler.load_state_dict(record.scaler)
    try:
        if record.train.get("steps") == trainer.config.steps:
            trainer.set_length(Length(**record.length.model_dump()))
        trainer.recovery.restore(record.recovery, parts["recovery"])
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"its record of steps and recoveries cannot be read: {error!r}.") from error
    trainer.method.streams.paired = record.paired
    trainer.callback_states = _callback_states(record.callbacks, parts["callback"])
    trainer.notes += _changes(record.train, trainer.config.model_dump(mode="json"))


def _callback_states(values: dict[str, dict[str, Any]], tensors: dict[str, Tensor]) -> dict[str, CallbackState]:
    found = {owner: CallbackState(own) for owner, own in values.items()}
    for full, tensor in tensors.items():
        owner, _, name = full.partition(":")
        if owner not in found:
            raise ModelError(f"'{full}' belongs to no callback.")
        found[owner].tensors[name] = tensor
    return found


def _changes(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Settings may be changed, for instance after a NaN, but then the result is no longer that of one run."""
    names = [name for name, value in now.items() if then.get(name) != value]
    changed = [f"train.{name} = {now[name]} (was {then.get(name)})" for name in names]
    return [f"resuming with changed settings: {', '.join(changed)}."] if changed else []


def _check_finite(trainer: Trainer) -> None:
    tensors: dict[str, Tensor] = dict(trainer.method.named_parameters())
    tensors |= {name: b for name, b in trainer.method.named_buffers() if name.endswith(STATISTICS)}
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise TrainingError(
                f"'{name}' contains NaN or infinity after step {trainer.step}, so no checkpoint is written. "
                f"Lower the learning rates (train.network.lr = {trainer.config.network.lr:g}) or set train.clip = 1."
            )


def _remove_others(directory: Path, step: int, *, keep: bool) -> None:
    """Keep this one and the one before, or all; those of later steps are of a past that was given up."""
    earlier = [other for other in steps_in(directory) if other <= step]
    for other in steps_in(directory):
        if other not in (earlier if keep else earlier[:KEPT]):
            remove_folder(folder_of(directory, other))
