"""Settings that nobody has given, chosen by the size of the data, the kind of network and the speed of the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from residapt.config import Config
from residapt.data.preprocess import PHOTOGRAPH
from residapt.settings import Settings

SOURCE_EPOCHS, SOURCE_STEPS = 12, (300, 4000)
ADAPT_EPOCHS, ADAPT_STEPS = 15, (300, 2000)
SOURCE_SHARE = 0.4
"""Share of the allowed time for the source network."""
FEWEST_STEPS = 20
"""Not even a slow machine takes fewer steps than this."""
EVALUATIONS = 5
"""Looks at the label-free scores in a run."""
HEALTH_CHECKS = 10
"""Looks of the health monitor at predictions."""
STEPS_PER_CHECK = 30
"""Fewest steps between two looks at the held-out source images."""
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


def fill_in(given: Config, facts: Facts) -> Config:
    """The user's configuration with everything chosen that was not set."""
    fill = partial(_fill, given=given)
    config = fill(given, group="data", image_size=facts.size, channels=facts.channels)
    if facts.size >= PHOTOGRAPH:
        config = fill(config, group="source", batch_size=32)
        config = fill(config, group="train", batch_size=32)
    if facts.size >= PHOTOGRAPH and facts.channels == 3 and config.data.augment:
        config = fill(config, group="consistency", view="drawn")  # another crop says more than a turn by some degrees
    if facts.pretrained:
        config = fill(config, group="source", lr=2e-4, head=5.0)
    steps = _between(SOURCE_EPOCHS * facts.source_images / config.source.batch_size, SOURCE_STEPS)
    config = fill(config, group="source", steps=steps)
    larger = max(facts.source_images, facts.target_images)
    steps = _between(ADAPT_EPOCHS * larger / config.train.batch_size, ADAPT_STEPS)
    config = fill(config, group="train", steps=steps)
    # Adversarial training that nobody has tuned runs away on hard pairs without these.
    config = fill(config, group="train", clip=CLIP)
    config = fill(config, group="discrepancy", normalise=True)
    for group in ("train", "transform", "discrepancy"):
        config = fill(config, group=group, seed=config.seed)
    return config


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
    checks = (config.source.steps or 0) // STEPS_PER_CHECK
    config = fill(config, group="source", checks=max(1, min(config.source.checks, checks)))
    config = fill(config, group="health", checks=HEALTH_CHECKS)
    config = fill(config, group="rank", every=max(1, min(config.rank.every, steps // PROX_STEPS)))
    return fill(config, group="rank", step=SHRINKAGE / max(1, steps // config.rank.every))


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
    if trains_source and is_default(given, "source", "steps"):
        assert config.source.steps is not None
        config, note = _limit(config, "source", config.source.steps, pace.source, SOURCE_SHARE * seconds)
        notes += note
    if trains_source:
        seconds -= (config.source.steps or 0) * pace.source
    if is_default(given, "train", "steps"):
        config, note = _limit(config, "train", config.train.steps, pace.adapt, seconds)
        notes += note
    return config, tuple(notes)


def is_default(config: Settings, group: str, name: str) -> bool:
    """Whether nobody has set a setting."""
    return name not in getattr(config, group).model_fields_set


def _limit(config: Config, group: str, steps: int, pace: float, seconds: float) -> tuple[Config, list[str]]:
    most = max(int(seconds / max(pace, 1e-9)), FEWEST_STEPS)
    if most >= steps:
        return config, []
    what = "source training" if group == "source" else "adaptation"
    note = (
        f"{what} takes {most} steps instead of {steps}, because a step takes {pace:.1f} s here and training may take "
        f"{config.minutes:g} minutes. For more, set minutes or {group}.steps."
    )
    return _update(config, group, {"steps": most}), [note]


def _between(value: float, limits: tuple[int, int]) -> int:
    return max(limits[0], min(limits[1], round(value)))


def _fill(config: Config, *, given: Config, group: str, **values: Any) -> Config:
    return _update(config, group, {name: v for name, v in values.items() if is_default(given, group, name)})


def _update(config: Config, group: str, values: Mapping[str, Any]) -> Config:
    own: Settings = getattr(config, group)
    return config.model_copy(update={group: own.model_copy(update=dict(values))})
