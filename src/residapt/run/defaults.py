"""Settings that nobody has given, chosen by the size of the data, the kind of network and the speed of the machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from residapt.config import Config
from residapt.data.preprocess import PHOTOGRAPH
from residapt.evaluate.evidence import subset
from residapt.models.cut_choice import FEWEST_VIEWS, VIEWS_SHARE
from residapt.run.clock import Pace
from residapt.run.cut import with_frozen_stages
from residapt.run.networks import OWN
from residapt.run.pace import (
    EVALUATION_SHARE,
    Evaluations,
    evaluations_along,
    images_in_the_end,
    limit_steps,
    measure,
    seconds_in_the_end,
)
from residapt.run.request import Setup
from residapt.train import GroupConfig, TrainConfig

SOURCE_EPOCHS, SOURCE_STEPS = 12, (300, 4000)
ADAPT_EPOCHS, ADAPT_STEPS = 15, (300, 2000)
VIEWS_PATIENCE = 1.5
"""Computing views may take so many times its share on a busy machine before there are fewer of them."""
NO_VIEWS = (
    "the samples are not images: what may be changed in them without changing their class is not known, so predictions "
    "of two views of a sample are not compared (consistency.view=strong compares them anyway)."
)
"""Message about a part of the recipe that is left out."""
SMALLEST = 8
"""Side of the smallest images that can be read from files."""
CLIP = 1.0
"""Largest gradient norm."""
PROX_STEPS = 10
"""Proximal steps in a run."""
SHRINKAGE = 0.06
"""t of Eq. 12 times the number of proximal steps, which decides how far ranks fall, however long a run is."""


@dataclass(frozen=True)
class Facts:
    """What the choices depend on."""

    source_images: int
    target_images: int
    size: int
    channels: int
    pretrained: bool
    """Whether the network starts from weights that were trained on something."""
    images: bool = True
    """Whether the samples are images, and not series or feature vectors."""


def fill_in(given: Config, facts: Facts) -> Config:
    """The user's configuration with everything chosen that was not set."""
    fill = partial(_fill, given=given)
    config = given
    if facts.images and facts.channels in (1, 3) and facts.size >= SMALLEST:
        config = fill(config, group="data", image_size=facts.size, channels=facts.channels)
    if facts.images and facts.size >= PHOTOGRAPH:
        config = fill(config, group="train", batch_size=32)
    config = _views(config, given, facts)
    if facts.pretrained:
        config = fill(config, group="pretrain", lr=2e-4, head=5.0)
    steps = _between(SOURCE_EPOCHS * facts.source_images / config.train.batch_size, SOURCE_STEPS)
    config = fill(config, group="pretrain", steps=steps)
    larger = max(facts.source_images, facts.target_images)
    steps = _between(ADAPT_EPOCHS * larger / config.train.batch_size, ADAPT_STEPS)
    config = fill(config, group="train", steps=steps)
    # Adversarial training that nobody has tuned runs away on hard pairs without these.
    config = fill(config, group="train", clip=CLIP)
    config = fill(config, group="discrepancy", normalise=True)
    for group in ("train", "transform", "discrepancy"):
        config = config.with_group(group, seed=config.seed)
    return config


def _views(config: Config, given: Config, facts: Facts) -> Config:
    """How samples are changed at random, and how fast the network learns from them, by what they are."""
    fill = partial(_fill, given=given)
    photographs = facts.images and facts.size >= PHOTOGRAPH and facts.channels == 3
    if config.recipe != "default":
        if photographs and config.data.augment:  # another crop says more than a turn by some degrees
            config = fill(config, group="consistency", view="drawn")
        return _without_photographs(config, given) if config.recipe == "source-free" and not photographs else config
    config = fill(config, group="augment", strength="mixed")
    config = fill(config, group="consistency", view="strong")
    if not facts.images and not given.is_set("consistency", "view"):
        # What may be changed in a series or in features is not known: views that were meant to be alike led away.
        config = config.with_group("consistency", weight=0.0)
    # A network that has learned the source and nothing else is trained on as quickly here as it was there.
    general = photographs and facts.pretrained
    rate = GroupConfig(lr=1e-4 if general else 5e-4)
    config = fill(config, group="train", network=rate, transform=rate)
    return fill(config, group="train", head=10.0) if general else config


def _without_photographs(config: Config, given: Config) -> Config:
    """What suits small images, series and features where there is no source: they learn fast."""
    config = _fill(config, given=given, group="consistency", view="strong")
    return _fill(config, given=given, group="train", transform=GroupConfig(lr=1e-3))


def by_steps(config: Config, given: Config, planned: Evaluations = Evaluations()) -> Config:  # noqa: B008  (it is frozen)
    """Intervals that follow from the number of steps, once that is known."""
    fill, steps = partial(_fill, given=given), config.train.steps
    config = fill(
        config,
        group="train",
        log_every=max(1, min(50, steps // 40)),
        evaluate_every=max(1, steps // planned.evaluations),
        checkpoint_every=max(1, steps // 10),
    )
    config = fill(config, group="health", checks=planned.checks, samples=planned.images)
    config = fill(config, group="rank", every=max(1, min(config.method_config.rank.every, steps // PROX_STEPS)))
    return fill(config, group="rank", step=SHRINKAGE / max(1, steps // config.method_config.rank.every))


def _between(value: float, limits: tuple[int, int]) -> int:
    return max(limits[0], min(limits[1], round(value)))


def _fill(config: Config, *, given: Config, group: str, **values: Any) -> Config:
    return config.with_group(group, **{name: v for name, v in values.items() if not given.is_set(group, name)})


def complete(setup: Setup, given: Config, facts: Facts) -> Setup:
    """The setup with a complete configuration: steps by the size of the data, fewer where they would take too long.

    Where time or a setting asks for it, the first stages of the network are frozen and cut off.
    """
    setup = with_frozen_stages(replace(setup, config=fill_in(given, facts)), pretrained=facts.pretrained)
    # A resumed run has all its settings, and keeps them however quick the machine is now.
    pace = Pace() if setup.resume else measure(setup, source_settings(setup.config))
    if not setup.resume and not given.is_set("views", "count"):
        setup, pace = _fewer_views(setup, pace)
    scored = images_in_the_end(setup, pace)
    sample = setup.sample[subset(len(setup.sample), scored, seed=0)]
    setup = replace(setup, scored=scored, sample=sample)
    config, notes, clock = setup.config, list(setup.notes), setup.clock
    if config.recipe == "default" and not config.method_config.consistency.weight and not facts.images:
        notes.append(NO_VIEWS)
    clock.pace = pace
    if config.minutes and not setup.resume:
        clock.wanted, clock.ending = _wanted(setup, given), seconds_in_the_end(setup, pace)
        seconds = (clock.left() - pace.views) * (1.0 - EVALUATION_SHARE)
        config, more = limit_steps(config, clock.wanted, pace, seconds)
        notes += more
    config = by_steps(config, given, evaluations_along(config, pace, len(setup.classes)))
    if setup.metadata.model is None:
        config = config.with_group("model", spec=f"{OWN}{type(setup.network).__name__}")
    return replace(setup, config=config, notes=tuple(notes))


def _fewer_views(setup: Setup, pace: Pace) -> tuple[Setup, Pace]:
    """Fewer views of each image where another program would make computing them take too much of the time."""
    seconds, views = 60.0 * VIEWS_SHARE * setup.config.minutes, setup.kept.views
    if setup.frozen is None or not seconds or pace.views <= VIEWS_PATIENCE * seconds or views <= FEWEST_VIEWS:
        return setup, pace
    fewer = max(FEWEST_VIEWS, int((1 + views) * VIEWS_PATIENCE * seconds / pace.views) - 1)
    config = setup.config.with_group("views", count=fewer)
    kept = setup.kept.model_copy(update={"views": fewer})
    cheaper = replace(pace, views=pace.views * (1 + fewer) / (1 + views))
    return replace(setup, config=config, kept=kept), cheaper


def _wanted(setup: Setup, given: Config) -> dict[str, int]:
    """Numbers of steps that nobody has set."""
    found = {} if given.is_set("train", "steps") else {"train": setup.config.train.steps}
    if setup.train_source and not given.is_set("pretrain", "steps"):
        found["pretrain"] = setup.config.pretrain.steps or 0
    return found


def source_settings(config: Config) -> TrainConfig:
    """The loop's settings for training the source network."""
    pretrain = config.pretrain
    assert pretrain.steps is not None
    values = {
        "steps": pretrain.steps,
        "batch_size": config.train.batch_size,
        "seed": config.train.seed,
        "beta1": 0.9,
        "network": {"lr": pretrain.lr},
        "weight_decay": pretrain.weight_decay,
        "head": pretrain.head,
        "log_every": max(1, min(50, pretrain.steps // 40)),
    }
    return TrainConfig.parse(values, where="pretrain")
