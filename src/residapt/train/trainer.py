"""The one training loop that all methods share (Algorithm 1; rank selection happens in the method's ``after_step``)."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterable
from contextlib import suppress

import torch
from torch import nn
from torch.optim import Optimizer

from residapt.data.batches import Batch, Batches, derived_seed
from residapt.data.domains import DomainPair
from residapt.data.prefetch import Prefetcher, workers_for
from residapt.distributed import Engine
from residapt.errors import Interrupted, ModelError, ResidaptError, TrainingError
from residapt.evaluate.predict import evaluating
from residapt.rank import RankChange
from residapt.train.accumulate import mean_losses, split_batch
from residapt.train.callbacks import Callback, Callbacks, CallbackState, RecoveryInfo, StepInfo
from residapt.train.config import TrainConfig
from residapt.train.divergence import Divergence
from residapt.train.faults import explain, with_hint
from residapt.train.length import Length
from residapt.train.method import Losses, Method
from residapt.train.optimiser import build_optimizer, set_learning_rates
from residapt.train.recovery import Recovery
from residapt.train.watch import Watch


class Trainer:
    """Minimise a method's loss over the batches of a pair of domains.

    Args:
        method: From :func:`residapt.methods.build_method`.
        pair: Labelled source and unlabelled target.
        config: The loop: steps, batch size, learning rates.
        callbacks: Called after every step, logged step, rank change and at the end.
        engine: Device, precision and processes.

    Example:
        >>> from residapt.data.domains import DomainPair, Labelled, TensorImages
        >>> from residapt.methods import build_method
        >>> x, y = torch.randn(16, 4), torch.arange(16) % 2
        >>> pair = DomainPair(Labelled(TensorImages(x), y), TensorImages(x + 0.5))
        >>> method = build_method("rpt", nn.Linear(4, 2), example=x[:2])
        >>> trainer = Trainer(method, pair, TrainConfig(steps=3, batch_size=4))
        >>> _ = trainer.run()
        >>> trainer.step
        3
    """

    def __init__(
        self,
        method: Method,
        pair: DomainPair,
        config: TrainConfig,
        *,
        callbacks: Iterable[Callback] = (),
        engine: Engine | None = None,
    ) -> None:
        self.engine = engine or Engine()
        self.config = config
        self.method = method.to(self.engine.device)
        channels_last = config.channels_last and method.streams.reads_any_format and _works_on_images(method)
        self.format = torch.channels_last if channels_last else None
        if self.format is not None:
            method.to(memory_format=self.format)
        self.batches = Batches(
            pair,
            size=config.batch_size,
            seed=config.seed,
            rank=self.engine.rank,
            world=self.engine.world,
            few=config.few_batch,
        )
        self.step, self.length = 0, Length(config.steps)
        """How far training is, and how long; at first as the settings say, see :meth:`change_steps`."""
        workers = workers_for(pair, self.engine.device.type != "cpu")
        self.prefetcher = Prefetcher(self._prepared, workers, config.steps)
        prepared = self._prepared(0)
        example = prepared.to(self.engine.device, self.format)
        classes = self._check_labels(pair, example)
        method.setup(pair, classes)
        split_batch(prepared, config.accumulate)  # refused before the first step, not in it
        if config.checkpointing:
            method.streams.checkpoint_blocks()
        if config.compile:
            method.streams.compile_network()
        self.optimizer: Optimizer = build_optimizer(method.groups(), config, method.streams.model, example.source[:2])
        self.recovery = Recovery(method, self.optimizer, classes=classes, most=config.recover, clip=config.clip)
        self.watch = Watch(self.engine, self.recovery)
        self.callbacks = Callbacks.of(callbacks)
        self.notes: list[str] = []
        """What people should know before the first step."""
        self.callback_states: dict[str, CallbackState] = {}
        """Of a checkpoint; callbacks get them when training starts."""
        self._signal: int | None = None
        self.engine.synchronise(method)

    def _check_labels(self, pair: DomainPair, example: Batch) -> int:
        """Refuse class indices that the network has no output for: later they would be an error without a place.

        Gives the number of classes.
        """
        with evaluating(self.method):
            classes = self.method.predict(example.source[:2], "source").shape[1]
        pair.source.check_classes(classes, "source")
        if pair.few is not None:
            pair.few.check_classes(classes, "labelled target")
        return int(classes)

    def run(self) -> Method:
        """Train to the end and give back the method."""
        self.method.train()
        self.callbacks.on_start(self.method, self.step, self.length.steps)
        self._restore_callbacks()
        try:
            self._pass_on(self.notes)
            self.callbacks.on_settled(self)
            while self.step < self.length.steps:
                self._stop_if_asked()
                self._one_step()
                self._pass_on([*self.method.new_notes(), *self.callbacks.new_notes()])
                self.callbacks.on_settled(self)
            self._stop_if_asked()
        except Exception as error:
            self._fail(error)
            raise
        finally:
            self.prefetcher.close()
        self._pass_on(self.method.final_notes())
        self.callbacks.on_end(self.method, self.step)
        return self.method

    def change_steps(self, steps: int) -> None:
        """Train for ``steps`` steps in all; schedules continue from where they are, and end with it.

        Call it between two steps, that is, in ``on_settled`` of a callback.
        """
        self.settle()
        self.set_length(self.length.changed(self.step, steps))
        self.callbacks.on_length(self.method, self.step, self.length.steps)

    def set_length(self, length: Length) -> None:
        """Continue with this length, also of a checkpoint; what happens every so many steps is scaled to it."""
        self.length = length
        self.prefetcher.restart(length.steps)  # whether a second view is wanted depends on progress
        same = length == Length(self.config.steps)  # then exactly 1, whatever the division would give
        self.method.speed = 1.0 if same else length.speed * self.config.steps

    def request_stop(self, number: int = signal.SIGINT) -> None:
        """Stop after the present step; ``number`` is the signal that asks for it."""
        self._signal = number

    def _stop_if_asked(self) -> None:
        if not self.engine.any(self._signal is not None):
            return
        self.settle()
        self.callbacks.on_interrupt(self)
        number = signal.Signals(self._signal or signal.SIGTERM)
        hint = self.callbacks.resume_hint() or "This run writes no checkpoints, so it cannot be resumed."
        raise Interrupted(
            f"stopped by {number.name} after step {self.step} of {self.length.steps}. {hint}",
            step=self.step,
            signal=int(number),
        )

    def _fail(self, error: Exception) -> None:
        """Notify the callbacks; errors that users can act on are raised with how to resume."""
        explained = explain(error, step=self.step, steps=self.length.steps, batch_size=self.config.batch_size)
        if explained is None or isinstance(explained, Interrupted):
            return
        with suppress(ResidaptError):  # a full disk has no room for this either
            self.callbacks.on_failure(self.method, self.step, explained)
            self._pass_on(self.callbacks.new_notes())
        raise with_hint(explained, self.callbacks.resume_hint()) from error

    def _restore_callbacks(self) -> None:
        try:
            self.callbacks.restore_states(self.method, self.callback_states)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise ModelError(f"the checkpoint's record of the run so far cannot be read: {error!r}.") from error

    def _pass_on(self, notes: list[str]) -> None:
        for note in notes:
            self.callbacks.on_note(self.method, self.step, note)

    def settle(self) -> None:
        """Check the numbers of all steps so far; where training has diverged, restore the last good state."""
        found = self.watch.check()
        if found is not None:
            self._recover(*found)

    def _one_step(self) -> None:
        number, progress = self.step + 1, self.length.progress(self.step)
        # Dropout is a function of the step, as everything random is: there is no state to save, or to be disturbed.
        torch.manual_seed(derived_seed(self.config.seed, "dropout", self.step, self.engine.rank))
        self.recovery.keep(self.step)
        set_learning_rates(self.optimizer, self.config, progress, self.recovery.factor)
        changes: list[RankChange] = []
        losses = None
        try:
            losses = self._update(self._batch(), progress)
            found = self.watch.check() if self._reads(number) else None
            if found is None:
                changes, found = self._between_steps(number)
        except Exception:
            # A training that has diverged, which has not been noticed yet, may fail in any way.
            found = self.watch.check()
            if found is None:
                raise
        if found is not None:
            self._recover(*found)
        elif losses is not None:
            self.step = number
            self._tell_of_step(losses, changes)
        self.callbacks.on_step(self.method, self.step)

    def _batch(self) -> Batch:
        return self.prefetcher.take(self.step).to(self.engine.device, self.format)

    def _prepared(self, step: int) -> Batch:
        """The batch of a step in main memory, ready to be copied."""
        view = self.method.wants_view(self.length.progress(step))
        batch = self.batches.batch(step, view=view, target=self.method.reads_target)
        batch = batch.to(torch.device("cpu"), self.format)
        return batch.pinned() if self.engine.device.type == "cuda" else batch

    def _logs(self, step: int) -> bool:
        return step % self.config.log_every == 0 or step == self.length.steps

    def _reads(self, step: int) -> bool:
        """Whether something after that step needs to know that training has not diverged, or a check is due."""
        return self.watch.due(step) or self._logs(step) or self.method.due(step) or self.callbacks.reads(step)

    def _between_steps(self, step: int) -> tuple[list[RankChange], tuple[int, Divergence] | None]:
        """What the method does between two steps; numbers beyond all measure show here as well."""
        try:
            return self.method.after_step(step, self.optimizer), None
        except (TrainingError, torch.linalg.LinAlgError) as error:  # type: ignore[attr-defined]
            shown = Divergence("ranks", math.nan, str(error).rstrip("."), gross=True)
            return [], self.watch.check() or (step, shown)

    def _tell_of_step(self, losses: Losses, changes: list[RankChange]) -> None:
        if changes:
            self.engine.synchronise(self.method)
            self.callbacks.on_ranks(self.method, self.step, changes)
        if self._logs(self.step):
            self.callbacks.on_log(self.method, self._info(losses))

    def _update(self, batch: Batch, progress: float) -> Losses:
        """One step of the optimiser."""
        self.optimizer.zero_grad(set_to_none=True)
        parts = split_batch(batch, self.config.accumulate)
        found = []
        for part in parts:
            with self.engine.autocast():
                losses = self.method.losses(part, progress)
            found.append(losses)
            if losses.total.requires_grad:
                self.engine.backward(losses.total if len(parts) == 1 else losses.total / len(parts))
        norm = self.engine.update(self.optimizer, self.recovery.clip)
        self._further_steps()
        self.engine.average_statistics(self.method)
        losses = mean_losses(found)
        self.watch.add(self.step + 1, losses, norm)
        return losses

    def _recover(self, step: int, divergence: Divergence) -> None:
        """Go back to the last good state and on with gentler settings, or end there when that has been tried enough."""
        stopped = self.recovery.exhausted
        self.step = step - 1  # those after it were trained in vain
        if stopped and divergence.gross and self.recovery.at_start:
            raise self.recovery.hopeless(divergence, step, self.length.steps, self.config)
        good = self.recovery.go_back()
        self.step = self.length.steps if stopped else step
        factor, clip = self.recovery.factor, self.recovery.clip
        info = RecoveryInfo(divergence.name, divergence.value, good.step, stopped, factor, clip)
        self.callbacks.on_recovery(self.method, step, info)
        self._pass_on([self.recovery.message(divergence, step, good, stopped=stopped)])

    def _further_steps(self) -> None:
        losses = self.method.further_losses()
        while True:
            with self.engine.autocast():
                loss = next(losses, None)
            if loss is None:
                return
            self.optimizer.zero_grad(set_to_none=True)
            self.engine.backward(loss)
            self.engine.update(self.optimizer, self.recovery.clip)

    def _values(self, losses: Losses) -> dict[str, float]:
        """Losses and watched numbers of the global batch."""
        named = {**losses.parts, "total": losses.total, **losses.watch}
        return dict(zip(named, self.engine.read(list(named.values())), strict=True))

    def _info(self, losses: Losses) -> StepInfo:
        return StepInfo(self.step, self.length.steps, self._values(losses), self.method.streams.ranks())


def _works_on_images(module: nn.Module) -> bool:
    """Whether there are 2-d convolutions, and no 3-d ones, whose weights have no such memory format."""
    return any(isinstance(child, nn.Conv2d) for child in module.modules()) and all(
        parameter.ndim != 5 for parameter in module.parameters()
    )
