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
from residapt.distributed import Engine
from residapt.errors import Interrupted, ModelError, ResidaptError, TrainingError
from residapt.evaluate.predict import evaluating
from residapt.train.accumulate import mean_losses, split_batch
from residapt.train.callbacks import Callback, Callbacks, CallbackState, StepInfo
from residapt.train.config import TrainConfig
from residapt.train.faults import explain, with_hint
from residapt.train.method import Losses, Method
from residapt.train.optimiser import build_optimizer, set_learning_rates


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
        self.format = torch.channels_last if config.channels_last and _works_on_images(method) else None
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
        method.meet(pair, self._check_labels(pair))
        split_batch(self.batches.batch(0), config.accumulate)  # refused before the first step, not in it
        if config.checkpointing:
            method.two.checkpoint_blocks()
        self.optimizer: Optimizer = build_optimizer(method.groups(), config, method.two.model)
        self.callbacks = Callbacks.of(callbacks)
        self.step = 0
        self.pending: list[str] = []
        """What people should know before the first step."""
        self.callback_states: dict[str, CallbackState] = {}
        """Of a checkpoint; callbacks get them when training starts."""
        self._signal: int | None = None
        self.engine.synchronise(method)

    def _check_labels(self, pair: DomainPair) -> int:
        """Refuse class indices that the network has no output for: later they would be an error without a place.

        Gives the number of classes.
        """
        first = self.batches.batch(0).to(self.engine.device, self.format)
        with evaluating(self.method):
            classes = self.method.predict(first.source[:2], "source").shape[1]
        pair.source.check_classes(classes, "source")
        if pair.few is not None:
            pair.few.check_classes(classes, "labelled target")
        return int(classes)

    def run(self) -> Method:
        """Train to the end and give back the method."""
        self.method.train()
        self.callbacks.on_start(self.method, self.step, self.config.steps)
        self._restore_callbacks()
        try:
            self._tell(self.pending)
            self.callbacks.on_settled(self)
            while self.step < self.config.steps:
                self._stop_if_asked()
                self._one_step()
                self._tell([*self.method.remarks(), *self.callbacks.notices()])
                self.callbacks.on_settled(self)
            self._stop_if_asked()
        except Exception as error:
            self._fail(error)
            raise
        self._tell(self.method.notices())
        self.callbacks.on_end(self.method, self.step)
        return self.method

    def request_stop(self, number: int = signal.SIGINT) -> None:
        """Stop after the present step; ``number`` is the signal that asks for it."""
        self._signal = number

    def _stop_if_asked(self) -> None:
        if not self.engine.any(self._signal is not None):
            return
        self.callbacks.on_interrupt(self)
        number = signal.Signals(self._signal or signal.SIGTERM)
        hint = self.callbacks.resume_hint() or "No checkpoint was asked for, so this run cannot go on."
        raise Interrupted(
            f"stopped by {number.name} after step {self.step} of {self.config.steps}. {hint}",
            step=self.step,
            signal=int(number),
        )

    def _fail(self, error: Exception) -> None:
        """Tell the callbacks, and raise what a person can do something about with words on how to go on."""
        told = explain(error, step=self.step, steps=self.config.steps, batch_size=self.config.batch_size)
        if told is None or isinstance(told, Interrupted):
            return
        with suppress(ResidaptError):  # a full disk has no room for this either
            self.callbacks.on_failure(self.method, self.step, told)
            self._tell(self.callbacks.notices())
        raise with_hint(told, self.callbacks.resume_hint()) from error

    def _restore_callbacks(self) -> None:
        try:
            self.callbacks.restore_states(self.method, self.callback_states)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise ModelError(f"the checkpoint's record of the run so far cannot be read: {error!r}.") from error

    def _tell(self, notices: list[str]) -> None:
        for notice in notices:
            self.callbacks.on_notice(self.method, self.step, notice)

    def _one_step(self) -> None:
        # Dropout is a function of the step, as everything random is: there is no state to save, or to be disturbed.
        torch.manual_seed(derived_seed(self.config.seed, "dropout", self.step, self.engine.rank))
        progress = self.step / max(self.config.steps, 1)
        batch = self.batches.batch(self.step, view=self.method.wants_view(progress))
        batch = batch.to(self.engine.device, self.format)
        set_learning_rates(self.optimizer, self.config, progress)
        losses = self._update(batch, progress)
        self.step += 1
        changes = self.method.after_step(self.step, self.optimizer)
        if changes:
            self.engine.synchronise(self.method)
            self.callbacks.on_ranks(self.method, self.step, changes)
        if self.step % self.config.log_every == 0 or self.step == self.config.steps:
            self.callbacks.on_log(self.method, self._info(losses))
        self.callbacks.on_step(self.method, self.step)

    def _update(self, batch: Batch, progress: float) -> Losses:
        self.optimizer.zero_grad(set_to_none=True)
        parts = split_batch(batch, self.config.accumulate)
        found = []
        for part in parts:
            with self.engine.autocast():
                losses = self.method.losses(part, progress)
            self._check_finite(losses)
            self.engine.backward(losses.total if len(parts) == 1 else losses.total / len(parts))
            found.append(losses)
        self.engine.update(self.optimizer, self.config.clip)
        self._further_steps()
        self.engine.average_statistics(self.method)
        return mean_losses(found)

    def _further_steps(self) -> None:
        losses = self.method.further_losses()
        while True:
            with self.engine.autocast():
                loss = next(losses, None)
            if loss is None:
                return
            self.optimizer.zero_grad(set_to_none=True)
            self.engine.backward(loss)
            self.engine.update(self.optimizer, self.config.clip)

    def _check_finite(self, losses: Losses) -> None:
        if not self.engine.any(not bool(torch.isfinite(losses.total))):
            return
        values = self._values(losses)
        name, value = next((name, value) for name, value in values.items() if not math.isfinite(value))
        raise TrainingError(
            f"the loss '{name}' is {value:g} at step {self.step + 1} of {self.config.steps}. Lower the learning rates "
            f"(train.network.lr = {self.config.network.lr:g}) or set train.clip = 1."
        )

    def _values(self, losses: Losses) -> dict[str, float]:
        """Losses and watched numbers of the global batch."""
        named = {**losses.parts, "total": losses.total, **losses.watch}
        return self.engine.average_values({name: float(value.detach()) for name, value in named.items()})

    def _info(self, losses: Losses) -> StepInfo:
        return StepInfo(self.step, self.config.steps, self._values(losses), self.method.two.ranks())


def _works_on_images(module: nn.Module) -> bool:
    """Whether there are 2-d convolutions, and no 3-d ones, whose weights have no such memory format."""
    return any(isinstance(child, nn.Conv2d) for child in module.modules()) and all(
        parameter.ndim != 5 for parameter in module.parameters()
    )
