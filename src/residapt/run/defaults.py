"""Settings that nobody has given, chosen by the size of the data, the kind of network and the speed of the machine."""

from __future__ import annotations

import copy
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from residapt.config import Config
from residapt.data.domains import DomainPair
from residapt.data.preprocess import PHOTOGRAPH
from residapt.distributed import Engine
from residapt.methods.fit import make_trainer, source_pair
from residapt.run.networks import OWN
from residapt.run.request import Setup
from residapt.train import Callback, GroupConfig, Method, TrainConfig
from residapt.train.early_stopping import EarlyStop

SOURCE_EPOCHS, SOURCE_STEPS = 12, (300, 4000)
ADAPT_EPOCHS, ADAPT_STEPS = 15, (300, 2000)
SOURCE_SHARE = 0.4
"""Share of the allowed time for the source network."""
FEWEST_STEPS = 20
"""Not even a slow machine takes fewer steps than this."""
EVALUATIONS = 5
"""Evaluations of the label-free scores in a run."""
HEALTH_CHECKS = 10
"""Evaluations of the health monitor in a run."""
CLIP = 1.0
"""Largest gradient norm."""
PROX_STEPS = 10
"""Proximal steps in a run."""
SHRINKAGE = 0.06
"""t of Eq. 12 times the number of proximal steps, which decides how far ranks fall, however long a run is."""

PROBES = 5
"""Steps that are timed; the first one warms up and does not count."""
OVERHEAD = 1.2
"""Time of a run divided by that of its steps alone: held-out images, scores and health are evaluated in between."""
PATIENCE = 20.0
"""Seconds after which timing ends."""


@dataclass(frozen=True)
class Facts:
    """What the choices depend on."""

    source_images: int
    target_images: int
    size: int
    channels: int
    pretrained: bool
    """Whether the network starts from weights that were trained on something."""


def fill_in(given: Config, facts: Facts) -> Config:
    """The user's configuration with everything chosen that was not set."""
    fill = partial(_fill, given=given)
    config = fill(given, group="data", image_size=facts.size, channels=facts.channels)
    if facts.size >= PHOTOGRAPH:
        config = fill(config, group="pretrain", batch_size=32)
        config = fill(config, group="train", batch_size=32)
    config = _views(config, given, facts)
    if facts.pretrained:
        config = fill(config, group="pretrain", lr=2e-4, head=5.0)
    steps = _between(SOURCE_EPOCHS * facts.source_images / config.pretrain.batch_size, SOURCE_STEPS)
    config = fill(config, group="pretrain", steps=steps)
    larger = max(facts.source_images, facts.target_images)
    steps = _between(ADAPT_EPOCHS * larger / config.train.batch_size, ADAPT_STEPS)
    config = fill(config, group="train", steps=steps)
    # Adversarial training that nobody has tuned runs away on hard pairs without these.
    config = fill(config, group="train", clip=CLIP)
    config = fill(config, group="discrepancy", normalise=True)
    for group in ("train", "transform", "discrepancy"):
        config = fill(config, group=group, seed=config.seed)
    return config


def _views(config: Config, given: Config, facts: Facts) -> Config:
    """How samples are changed at random, and how fast the network learns from them, by what they are."""
    fill = partial(_fill, given=given)
    photographs = facts.size >= PHOTOGRAPH and facts.channels == 3
    if photographs and config.data.augment:
        config = fill(config, group="consistency", view="drawn")  # another crop says more than a turn by some degrees
    if config.recipe != "default":
        return config
    if not photographs:
        config = fill(config, group="augment", strength="mixed")
        config = fill(config, group="consistency", view="strong")
    rate = GroupConfig(lr=1e-4 if facts.pretrained else 5e-4)
    config = fill(config, group="train", network=rate, transform=rate)
    return fill(config, group="train", head=10.0) if facts.pretrained else config


def by_steps(config: Config, given: Config) -> Config:
    """Intervals that follow from the number of steps, once that is known."""
    fill, steps = partial(_fill, given=given), config.train.steps
    config = fill(
        config,
        group="train",
        log_every=max(1, min(50, steps // 40)),
        evaluate_every=max(1, steps // EVALUATIONS),
        checkpoint_every=max(1, steps // 10),
    )
    config = fill(config, group="health", checks=HEALTH_CHECKS)
    config = fill(config, group="rank", every=max(1, min(config.method_config.rank.every, steps // PROX_STEPS)))
    return fill(config, group="rank", step=SHRINKAGE / max(1, steps // config.method_config.rank.every))


@dataclass(frozen=True)
class Pace:
    """Seconds that one step takes on this machine."""

    source: float
    adapt: float


def limit_steps(config: Config, given: Config, pace: Pace, trains_source: bool) -> tuple[Config, tuple[str, ...]]:
    """Fewer steps where the chosen ones would take longer than ``minutes``; what was set stays.

    ``given`` is the configuration as the user wrote it.
    """
    if not config.minutes:
        return config, ()
    seconds = 60.0 * config.minutes
    notes: list[str] = []
    if trains_source and not given.is_set("pretrain", "steps"):
        assert config.pretrain.steps is not None
        config, note = _limit(config, "pretrain", config.pretrain.steps, pace.source, SOURCE_SHARE * seconds)
        notes += note
    if trains_source:
        seconds -= (config.pretrain.steps or 0) * pace.source
    if not given.is_set("train", "steps"):
        config, note = _limit(config, "train", config.train.steps, pace.adapt, seconds)
        notes += note
    return config, tuple(notes)


def _limit(config: Config, group: str, steps: int, pace: float, seconds: float) -> tuple[Config, list[str]]:
    most = max(int(seconds / max(pace, 1e-9)), FEWEST_STEPS)
    if most >= steps:
        return config, []
    what = "source training" if group == "pretrain" else "adaptation"
    note = (
        f"{what} takes {most} steps instead of {steps}, because a step takes {pace:.1f} s here and training may take "
        f"{config.minutes:g} minutes. For more, set minutes or {group}.steps."
    )
    return config.with_group(group, steps=most), [note]


def _between(value: float, limits: tuple[int, int]) -> int:
    return max(limits[0], min(limits[1], round(value)))


def _fill(config: Config, *, given: Config, group: str, **values: Any) -> Config:
    return config.with_group(group, **{name: v for name, v in values.items() if not given.is_set(group, name)})


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


def complete(setup: Setup, given: Config, facts: Facts) -> Setup:
    """The setup with a complete configuration: steps by the size of the data, fewer where they would take too long."""
    setup = with_frozen_stages(replace(setup, config=fill_in(given, facts)), pretrained=facts.pretrained)
    config = setup.config
    adapt = _seconds_per_step(setup, config, config.method, setup.pair, config.train)
    source = 0.0
    notes: tuple[str, ...] = ()
    if setup.train_source and config.minutes and not given.is_set("pretrain", "steps"):
        alone = source_pair(setup.pair.source, setup.pair.balance)
        source = _seconds_per_step(setup, config, "source_only", alone, source_settings(config))
    if config.minutes:
        config, notes = limit_steps(config, given, Pace(source, adapt), setup.train_source)
    config = by_steps(config, given)
    if setup.metadata.model is None:
        config = config.with_group("model", spec=f"{OWN}{type(setup.network).__name__}")
    return replace(setup, config=config, notes=(*setup.notes, *notes))


def source_settings(config: Config) -> TrainConfig:
    """The loop's settings for training the source network."""
    pretrain = config.pretrain
    assert pretrain.steps is not None
    values = {
        "steps": pretrain.steps,
        "batch_size": pretrain.batch_size,
        "seed": config.train.seed,
        "beta1": 0.9,
        "network": {"lr": pretrain.lr, "weight_decay": pretrain.weight_decay},
        "head": pretrain.head,
        "log_every": max(1, min(50, pretrain.steps // 40)),
    }
    return TrainConfig.parse(values, where="pretrain")


def _seconds_per_step(setup: Setup, config: Config, method: str, pair: DomainPair, train: TrainConfig) -> float:
    """Time a few steps on a copy of the network; this also finds out whether the method works with it at all."""
    clock = _Clock(setup.engine)
    trainer = make_trainer(
        method,
        copy.deepcopy(setup.network),
        pair,
        method=config.method_config,
        train=train.model_copy(update={"steps": min(PROBES, train.steps)}),
        callbacks=[clock],
        engine=setup.engine,
    )
    with suppress(EarlyStop):
        trainer.run()
    counted = clock.taken[1:] or clock.taken or [0.0]
    # Every process must come to the same number of steps.
    return setup.engine.average_values({"pace": OVERHEAD * sum(counted) / len(counted)})["pace"]
