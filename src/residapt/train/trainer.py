"""The one training loop that all methods share (Algorithm 1; rank selection happens in the method's ``after_step``)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn
from torch.optim import Optimizer

from residapt.data.batches import Batch, Batches, derived_seed
from residapt.data.domains import DomainPair
from residapt.engine import Engine
from residapt.errors import TrainingError
from residapt.train.config import TrainConfig
from residapt.train.events import Callback, Callbacks, StepInfo
from residapt.train.method import Losses, Method
from residapt.train.optimiser import build_optimizer, set_learning_rates


class Trainer:
    """Minimise a method's loss over the batches of a pair of domains."""

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
        self.format = torch.channels_last if config.channels_last and _has_2d_convolutions(method) else None
        if self.format is not None:
            method.to(memory_format=self.format)  # type: ignore[call-overload]
        self.batches = Batches(
            pair, size=config.batch_size, seed=config.seed, rank=self.engine.rank, world=self.engine.world
        )
        self.optimizer: Optimizer = build_optimizer(method.groups(), config, method.two.model)
        self.callbacks = Callbacks.of(callbacks)
        self.step = 0
        torch.manual_seed(derived_seed(config.seed, "dropout"))

    def run(self) -> Method:
        """Train to the end and give back the method."""
        self.method.train()
        self.callbacks.on_start(self.method, self.step, self.config.steps)
        try:
            while self.step < self.config.steps:
                self._one_step()
                self._tell(self.callbacks.notices())
        except TrainingError as error:
            self.callbacks.on_failure(self.method, self.step, error)
            self._tell(self.callbacks.notices())
            raise
        self._tell(self.method.notices())
        self.callbacks.on_end(self.method, self.step)
        return self.method

    def _tell(self, notices: list[str]) -> None:
        for notice in notices:
            self.callbacks.on_notice(self.method, self.step, notice)

    def _one_step(self) -> None:
        batch = self.batches.batch(self.step).to(self.engine.device, self.format)
        progress = self.step / max(self.config.steps, 1)
        set_learning_rates(self.optimizer, self.config, progress)
        losses = self._update(batch, progress)
        self.step += 1
        changes = self.method.after_step(self.step, self.optimizer)
        if changes:
            self.callbacks.on_ranks(self.method, self.step, changes)
        if self.step % self.config.log_every == 0 or self.step == self.config.steps:
            self.callbacks.on_log(self.method, self._info(losses))
        self.callbacks.on_step(self.method, self.step)

    def _update(self, batch: Batch, progress: float) -> Losses:
        self.optimizer.zero_grad(set_to_none=True)
        with self.engine.autocast():
            losses = self.method.losses(batch, progress)
        self._check_finite(losses)
        losses.total.backward()  # type: ignore[no-untyped-call]
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        self.engine.average_gradients(parameters)
        if self.config.clip is not None:
            nn.utils.clip_grad_norm_(parameters, self.config.clip)
        self.optimizer.step()
        return losses

    def _check_finite(self, losses: Losses) -> None:
        if bool(torch.isfinite(losses.total)):
            return
        bad = [name for name, part in losses.parts.items() if not bool(torch.isfinite(part))] or ["total"]
        raise TrainingError(
            f"the loss '{bad[0]}' is {float(losses.parts.get(bad[0], losses.total)):g} at step {self.step + 1} of "
            f"{self.config.steps}. Lower the learning rates (train.network.lr = {self.config.network.lr:g}) or set train.clip = 1."
        )

    def _info(self, losses: Losses) -> StepInfo:
        values = {name: float(value.detach()) for name, value in {**losses.parts, **losses.watch}.items()}
        values["total"] = float(losses.total.detach())
        return StepInfo(self.step, self.config.steps, values, self.method.two.ranks())


def _has_2d_convolutions(module: nn.Module) -> bool:
    return any(isinstance(child, nn.Conv2d) for child in module.modules())
