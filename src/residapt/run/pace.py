"""How fast this machine is, and what that means for the number of steps."""

from __future__ import annotations

import copy
import time
from contextlib import suppress
from dataclasses import replace

from residapt.config import Config
from residapt.data.domains import DomainPair
from residapt.distributed import Engine
from residapt.methods.fit import make_trainer, source_pair
from residapt.run.defaults import Facts, Pace, by_steps, fill_in, is_default, limit_steps
from residapt.run.networks import OWN
from residapt.run.request import Plan
from residapt.train import Callback, Method, TrainConfig
from residapt.train.early_stopping import EarlyStop

PROBES = 5
"""Steps that are timed; the first one warms up and does not count."""
LOOKS = 1.2
"""Share of a run's time to that of its steps: held-out images, scores and health are looked at in between."""
PATIENCE = 20.0
"""Seconds after which timing ends."""


class _Clock(Callback):
    """Remember how long each step took."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.taken: list[float] = []

    def on_start(self, method: Method, step: int, steps: int) -> None:
        self._begin = self._last = time.monotonic()

    def on_step(self, method: Method, step: int) -> None:
        now = time.monotonic()
        self.taken.append(now - self._last)
        self._last = now
        if self.engine.any(now - self._begin > PATIENCE):
            raise EarlyStop


def decide(plan: Plan, given: Config, facts: Facts) -> Plan:
    """The plan with a complete configuration: steps by the size of the data, fewer where they would take too long."""
    config = fill_in(given, facts)
    adapt = _seconds_per_step(plan, config, config.method, plan.pair, config.train)
    source = 0.0
    notes: tuple[str, ...] = ()
    if plan.train_source and config.minutes and is_default(given, "source", "steps"):
        alone = source_pair(plan.pair.source, plan.pair.balance)
        source = _seconds_per_step(plan, config, "source_only", alone, source_settings(config))
    if config.minutes:
        config, notes = limit_steps(config, given, Pace(source, adapt), plan.train_source)
    config = by_steps(config, given)
    if plan.metadata.model is None:
        model = config.model.model_copy(update={"spec": f"{OWN}{type(plan.network).__name__}"})
        config = config.model_copy(update={"model": model})
    return replace(plan, config=config, notes=(*plan.notes, *notes))


def source_settings(config: Config) -> TrainConfig:
    """The loop's settings for training the source network."""
    source = config.source
    assert source.steps is not None
    values = {
        "steps": source.steps,
        "batch_size": source.batch_size,
        "seed": config.train.seed,
        "beta1": 0.9,
        "network": {"lr": source.lr, "weight_decay": source.weight_decay},
        "head": source.head,
        "channels_last": config.train.channels_last,
        "log_every": max(1, min(50, source.steps // 40)),
    }
    return TrainConfig.parse(values, where="source")


def _seconds_per_step(plan: Plan, config: Config, method: str, pair: DomainPair, train: TrainConfig) -> float:
    """Time a few steps on a copy of the network; this also finds out whether the method works with it at all."""
    clock = _Clock(plan.engine)
    trainer = make_trainer(
        method,
        copy.deepcopy(plan.network),
        pair,
        method=config,
        train=train.model_copy(update={"steps": min(PROBES, train.steps)}),
        callbacks=[clock],
        engine=plan.engine,
    )
    with suppress(EarlyStop):
        trainer.run()
    counted = clock.taken[1:] or clock.taken or [0.0]
    # Every process must come to the same number of steps.
    return plan.engine.average_values({"pace": LOOKS * sum(counted) / len(counted)})["pace"]
