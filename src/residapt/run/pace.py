"""How long a run takes on this machine, and how many steps fit into the time allowed."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from residapt.config import Config
from residapt.data.domains import DomainPair, Labelled
from residapt.evaluate.predict import evaluating
from residapt.methods.fit import make_trainer, source_pair
from residapt.run.request import Pace, Setup
from residapt.train import TrainConfig, Trainer

PROBES = (0.5, 0.1, 0.9, 0.9)
"""Progress of the training at which a step is timed; the first one warms up and does not count."""
PATIENCE = 15.0
"""Seconds after which timing ends."""
OVERHEAD = 1.15
"""Time of a step to that of its forward and backward pass: optimiser and rank selection."""
LOOKS = 0.08
"""Share of the time for training in which scores and health are computed."""
IN_THE_END = 0.05
"""Share of the time allowed for final scoring, files and report."""
REPORT = 5.0
"""Seconds for files and report, at least."""
SOURCE_SHARE = 0.4
"""Share of the time for training that the source network may take."""
FEWEST_STEPS = 20
"""Not even a slow machine takes fewer steps than this."""
LOOKED_AT = (64, 500)
"""Fewest and most images of each domain in an evaluation along the run."""


def measure(setup: Setup, source: TrainConfig) -> Pace:
    """Time forward and backward passes on a copy of the network; nothing is trained.

    This also finds out whether the method works with the network at all.
    """
    config = setup.config
    pair = setup.pair if setup.frozen is None else _stand_in(setup.pair, setup.frozen.example)
    trainer = _trainer(setup, config.method, pair, config.train)
    adapt = _seconds_per_step(trainer)
    forward = _seconds_of_prediction(trainer)
    alone = 0.0
    if setup.train_source and config.minutes:
        alone = _seconds_per_step(_trainer(setup, "source_only", source_pair(pair.source, pair.balance), source))
    views = 0.0
    if setup.frozen is not None:
        per_image = _quickest(partial(setup.frozen.stages, setup.frozen.images)) / len(setup.frozen.images)
        views = per_image * sum(len(images) for images in setup.opened.values()) * (1 + (config.views.count or 0))
    found = {"source": alone, "adapt": adapt, "forward": forward, "views": views}
    return Pace(**setup.engine.average_values(found))  # every process must come to the same number of steps


def limit_steps(
    config: Config, given: Config, pace: Pace, trains_source: bool, seconds: float
) -> tuple[Config, tuple[str, ...]]:
    """Fewer steps where the chosen ones would take longer than ``seconds``; what was set stays.

    Args:
        config: With the steps that suit the data.
        given: As the user wrote it.
        pace: How long a step takes.
        trains_source: Whether the source network is trained as well.
        seconds: What is left of the time allowed for both trainings.
    """
    notes: list[str] = []
    if trains_source and not given.is_set("pretrain", "steps"):
        assert config.pretrain.steps is not None
        config, note = _limit(config, "pretrain", config.pretrain.steps, pace.source, SOURCE_SHARE * seconds)
        notes += note
    if trains_source:
        seconds -= (config.pretrain.steps or 0) * pace.source
    if not given.is_set("train", "steps"):
        config, note = _limit(config, "train", config.train.steps, pace.adapt, seconds / trainings(config))
        notes += note
    return config, tuple(notes)


def trainings(config: Config) -> float:
    """How many trainings the adaptation may take, in lengths of the first."""
    search = config.method_config.prior.search
    return 1.0 if not search.rounds else 2.0 + search.rounds * search.share


def seconds_for_training(setup: Setup, pace: Pace) -> float:
    """What is left of the time allowed once images are read, views computed, and scores and report written."""
    allowed = 60.0 * setup.config.minutes
    before = time.monotonic() - setup.started + pace.views
    return max(0.0, (allowed - before - seconds_in_the_end(setup, pace)) * (1.0 - LOOKS))


def seconds_in_the_end(setup: Setup, pace: Pace) -> float:
    """Time of scoring both networks, and of the report."""
    scored = 0 if setup.evaluation is None else len(setup.evaluation.data.images)
    images = 2 * (len(setup.held_out_seen.images) + len(setup.sample) + scored)
    return REPORT + images * pace.forward


def images_in_the_end(setup: Setup, pace: Pace) -> int:
    """How many images of each domain both networks are scored on.

    No more than the training sees, and in a small share of the time allowed.
    """
    trained = setup.config.train.steps * setup.config.train.batch_size
    most = min(trained, setup.config.data.score_images)
    if setup.config.minutes:
        seconds = IN_THE_END * 60.0 * setup.config.minutes
        once = len(setup.target) + len(setup.pair.source.images)  # which may take as long as it takes
        most = min(most, max(once, int(seconds / max(pace.forward, 1e-9))) // 4)
    return max(LOOKED_AT[1], most)


def images_along(config: Config, pace: Pace, looks: int) -> int:
    """How many images of each domain an evaluation along the run takes, so that all take no more than their share."""
    training = (config.pretrain.steps or 0) * pace.source + config.train.steps * pace.adapt
    possible = LOOKS * training / max(2 * looks * pace.forward, 1e-9)
    return max(LOOKED_AT[0], min(LOOKED_AT[1], int(possible)))


def _limit(config: Config, group: str, steps: int, pace: float, seconds: float) -> tuple[Config, list[str]]:
    most = max(int(seconds / max(pace, 1e-9)), FEWEST_STEPS)
    if most >= steps:
        return config, []
    what = "source training" if group == "pretrain" else "adaptation"
    note = (
        f"{what} takes {most} steps instead of {steps}, because a step takes {pace:.1f} s here and the run may take "
        f"{config.minutes:g} minutes. For more, set minutes or {group}.steps."
    )
    return config.with_group(group, steps=most), [note]


class _Noise:
    """Numbers in the shape of outputs that have not been computed yet."""

    def __init__(self, count: int, like: Tensor) -> None:
        self.count, self.like = count, like.cpu()

    def __len__(self) -> int:
        return self.count

    def fetch(self, index: Tensor, generator: torch.Generator) -> Tensor:
        """The given outputs, in another order."""
        return self.like[torch.randint(len(self.like), (len(index),), generator=generator)]


def _stand_in(pair: DomainPair, like: Tensor) -> DomainPair:
    def of(data: Labelled) -> Labelled:
        return Labelled(_Noise(len(data.images), like), data.labels)

    few = None if pair.few is None else of(pair.few)
    return replace(pair, source=of(pair.source), target=_Noise(len(pair.target), like), few=few)


def _trainer(setup: Setup, method: str, pair: DomainPair, train: TrainConfig) -> Trainer:
    network = copy.deepcopy(setup.network)
    config = setup.source_config if method == "source_only" else setup.method_config
    return make_trainer(method, network, pair, method=config, train=train, engine=setup.engine)


def _seconds_per_step(trainer: Trainer) -> float:
    trainer.method.train()
    taken: list[float] = []
    begin = time.monotonic()
    for number, progress in enumerate(PROBES):
        started = time.monotonic()
        batch = trainer.batches.batch(number, view=trainer.method.wants_view(progress))
        with trainer.engine.autocast():
            losses = trainer.method.losses(batch.to(trainer.engine.device, trainer.format), progress)
        trainer.engine.backward(losses.total)
        trainer.engine.read([losses.total])  # which waits for the device
        trainer.optimizer.zero_grad(set_to_none=True)
        taken.append(time.monotonic() - started)
        if trainer.engine.any(time.monotonic() - begin > PATIENCE):
            break
    return OVERHEAD * _mean_of_phases(taken[1:] or taken)


def _mean_of_phases(taken: Sequence[float]) -> float:
    """Early steps and late ones count the same; of several late ones the quickest counts."""
    early, late = taken[0], taken[1:]
    return (early + min(late)) / 2 if late else early


def _seconds_of_prediction(trainer: Trainer) -> float:
    batch = trainer.batches.batch(0).target.to(trainer.engine.device)
    with evaluating(trainer.method):
        return _quickest(partial(trainer.method.predict, batch, "target")) / len(batch)


def _quickest(call: partial[Tensor]) -> float:
    taken = []
    for _ in range(2):
        started = time.monotonic()
        float(call().sum())  # which waits for the device
        taken.append(time.monotonic() - started)
    return min(taken)
