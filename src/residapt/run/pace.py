"""How long a run takes on this machine, and how many steps fit into the time allowed."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from residapt.config import Config
from residapt.data.domains import DomainPair, Labelled
from residapt.evaluate.predict import evaluating
from residapt.methods.fit import make_trainer, source_pair
from residapt.run.clock import Pace, StepCost
from residapt.run.frozen import Frozen
from residapt.run.request import Setup
from residapt.train import TrainConfig, Trainer
from residapt.train.health import least_samples

WARM_UP = 0.5
"""Progress of the step that is not counted, since the first one of a process takes longer."""
PROBES = (0.0, 0.95, 0.95, 0.0)
"""Progress of the training at which a step is timed; of those of one kind the quickest counts."""
Messages = tuple[str, ...]
PATIENCE = 15.0
"""Seconds after which timing ends."""
TIMED = 16
"""Images that are timed at once."""
TURNS = 2.0
"""Seconds over which the frozen stages are timed. Computing their outputs cannot be made shorter on the way, so that it
counts how much of the machine other programs take."""
OVERHEAD = 1.15
"""Time of a step to that of its forward and backward pass: optimiser and rank selection."""
EVALUATION_SHARE = 0.08
"""Share of the time for training in which scores and health are computed."""
SHORT_SECONDS = 10.0
"""Evaluations that take less than this are not made fewer: a short run, however busy the machine, keeps its curves."""
IN_THE_END = 0.05
"""Share of the time allowed for final scoring, files and report."""
REPORT = 4.0
"""Seconds for scores, files and report on a machine with nothing else to do, besides predictions."""
BUSIEST = 8.0
"""Most times longer that these are expected to take on a busy machine."""
SOURCE_SHARE = 0.4
"""Share of the time for training that the source network may take."""
FEWEST_STEPS = 20
"""Not even a slow machine takes fewer steps than this."""
EVALUATED_IMAGES = (64, 500)
"""Fewest and most images of each domain in an evaluation along the run."""
EVALUATIONS = 5
"""Evaluations of the label-free scores in a run, besides that at its start."""
HEALTH_CHECKS = 10
"""Evaluations of the health monitor in a run, besides that at its start."""


@dataclass(frozen=True)
class Evaluations:
    """Evaluations along a run."""

    images: int = EVALUATED_IMAGES[1]
    """Of each domain."""
    evaluations: int = EVALUATIONS
    """Of the label-free scores, and of labelled images where there are some to score."""
    checks: int = HEALTH_CHECKS
    """Of the health monitor."""

    def predictions(self, classes: int) -> int:
        """Images that are predicted in all of them."""
        health = max(self.images, least_samples(classes))
        return 3 * self.images * (1 + self.evaluations) + 2 * health * (1 + self.checks)


def measure(setup: Setup, source: TrainConfig) -> Pace:
    """Time forward and backward passes on a copy of the network; nothing is trained.

    This also finds out whether the method works with the network at all.
    """
    config, begin, computed = setup.config, time.monotonic(), time.thread_time()
    pair = setup.pair if setup.frozen is None else _stand_in(setup.pair, setup.frozen.example)
    trainer = _trainer(setup, config.method, pair, config.train)
    change = config.method_config.consistency.start if config.method_config.consistency.weight > 0 else 1.0
    adapt = _cost(trainer, change)
    forward = _seconds_of_prediction(trainer)
    alone = StepCost()
    if setup.train_source and config.minutes:
        alone = _cost(_trainer(setup, "source_only", source_pair(pair.source, pair.balance), source), 1.0)
    views = 0.0
    if setup.frozen is not None:
        index = torch.arange(min(TIMED, len(setup.target)))
        per_image = _usual(partial(_frozen_outputs, setup, setup.frozen, index)) / len(index)
        views = per_image * sum(len(images) for images in setup.opened.values()) * (1 + (config.views.count or 0))
    busy = (time.monotonic() - begin) / max(time.thread_time() - computed, 1e-9)
    busy = min(max(busy, 1.0), BUSIEST)
    found = (alone.early, alone.late, adapt.early, adapt.late, forward, views, busy)
    # Every process must come to the same number of steps.
    mean = list(setup.engine.average_values({str(i): value for i, value in enumerate(found)}).values())
    return Pace(StepCost(mean[0], mean[1]), StepCost(mean[2], mean[3], change), *mean[4:])


def limit_steps(config: Config, wanted: Mapping[str, int], pace: Pace, seconds: float) -> tuple[Config, Messages]:
    """Fewer steps where those that the data ask for would take longer than ``seconds``; what was set stays.

    Args:
        config: With the steps that suit the data.
        wanted: These steps, by group of settings, where nobody has set them.
        pace: How long a step takes.
        seconds: What is left of the time allowed for both trainings.
    """
    notes: list[str] = []
    if "pretrain" in wanted:
        share = seconds_for_source(config, pace, seconds)
        config, note = _limit(config, "pretrain", wanted["pretrain"], pace.source.mean(), share)
        notes += note
    seconds -= (config.pretrain.steps or 0) * pace.source.mean()
    if "train" in wanted:
        config, note = _limit(config, "train", wanted["train"], pace.adapt.mean(), seconds / trainings(config))
        notes += note
    return config, tuple(notes)


def seconds_for_source(config: Config, pace: Pace, seconds: float) -> float:
    """What training the source network may take of the time for both trainings: a share, or all that will be left."""
    needed = trainings(config) * config.train.steps * pace.adapt.mean()
    return max(SOURCE_SHARE * seconds, seconds - needed)


def trainings(config: Config) -> float:
    """How many trainings the adaptation may take, in lengths of the first."""
    search = config.method_config.prior.search
    return 1.0 if not search.rounds else 2.0 + search.rounds * search.share


def shares(config: Config, number: int) -> tuple[float, float]:
    """The length of the training of this number, and of all from it on, in lengths of the first."""
    search = config.method_config.prior.search
    if not search.rounds or number > search.rounds:
        return 1.0, 1.0
    return (1.0, trainings(config)) if not number else (search.share, 1.0 + (search.rounds - number + 1) * search.share)


def seconds_in_the_end(setup: Setup, pace: Pace) -> float:
    """Time of scoring both networks, and of the report."""
    scored = 0 if setup.evaluation is None else len(setup.evaluation.data.images)
    images = 2 * (len(setup.held_out_seen.images) + len(setup.sample) + scored)
    return REPORT * pace.busy + images * pace.forward


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
    return max(EVALUATED_IMAGES[1], most)


def evaluations_along(config: Config, pace: Pace, classes: int) -> Evaluations:
    """Scores and health checks that take no more than their share of the time for training.

    Where that is not enough for all of them on the fewest images, there are fewer of them.
    """
    training = (config.pretrain.steps or 0) * pace.source.mean() + config.train.steps * pace.adapt.mean()
    allowed = EVALUATION_SHARE * training
    fewest, most = EVALUATED_IMAGES
    of_images = [Evaluations(images) for images in range(most, fewest, -1)]
    of_number = [
        Evaluations(fewest, number, HEALTH_CHECKS // EVALUATIONS * number) for number in range(EVALUATIONS, 0, -1)
    ]

    def fits(planned: Evaluations, seconds: float) -> bool:
        return planned.predictions(classes) * pace.forward <= seconds

    for planned in of_images:
        if fits(planned, allowed):
            return planned
    return next((planned for planned in of_number if fits(planned, max(allowed, SHORT_SECONDS))), of_number[-1])


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


def _cost(trainer: Trainer, change: float) -> StepCost:
    """The time of early and of late steps; a very slow one is not timed again."""
    trainer.method.train()
    taken: dict[bool, list[float]] = {False: [], True: []}
    begin = time.monotonic()
    for number, progress in enumerate((WARM_UP, *PROBES)):
        started = time.monotonic()
        batch = trainer.batches.batch(number, view=trainer.method.wants_view(progress))
        with trainer.engine.autocast():
            losses = trainer.method.losses(batch.to(trainer.engine.device, trainer.format), progress)
        trainer.engine.backward(losses.total)
        trainer.engine.read([losses.total])  # which waits for the device
        trainer.optimizer.zero_grad(set_to_none=True)
        if number:
            taken[progress >= change].append(time.monotonic() - started)
        if number > 1 and trainer.engine.any(time.monotonic() - begin > PATIENCE):
            break
    early, late = (OVERHEAD * min(taken[kind] or taken[not kind]) for kind in (False, True))
    return StepCost(early, late, change)


def _seconds_of_prediction(trainer: Trainer) -> float:
    batch = trainer.batches.batch(0).target.to(trainer.engine.device)
    with evaluating(trainer.method):
        return _quickest(partial(trainer.method.predict, batch, "target")) / len(batch)


def _frozen_outputs(setup: Setup, frozen: Frozen, index: Tensor) -> Tensor:
    """What is done for each view of some images: they are decoded, changed at random and read by the stages."""
    images = setup.target.train.fetch(index, torch.Generator().manual_seed(0))
    found: Tensor = frozen.stages(images.to(setup.device))
    return found


def _usual(call: partial[Tensor]) -> float:
    """Mean time of a call, over long enough that other programs have their turns as well."""
    float(call().sum())  # the first one takes longer
    begin, calls = time.monotonic(), 0
    while not calls or time.monotonic() - begin < TURNS:
        float(call().sum())
        calls += 1
    return (time.monotonic() - begin) / calls


def _quickest(call: partial[Tensor]) -> float:
    taken = []
    for _ in range(2):
        started = time.monotonic()
        float(call().sum())  # which waits for the device
        taken.append(time.monotonic() - started)
    return min(taken)
