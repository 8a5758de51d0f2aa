r"""Trainings that are repeated from the same network, with the target's class frequencies that were found.

Within one training the network's predictions and the estimate of the class frequencies hold on to each other: what was
classified wrongly under the first assumption stays confident, and the estimate counts it there. The frequencies
outlive the network, though: a training that starts again from the source network with a better assumption classifies
fewer images wrongly, and its own estimate is better again. So:

1. the training as it is; if its estimate has not moved far from where it started, that is all;
2. otherwise short trainings whose estimates follow fast. The first half of them start where the training did, each with
   another order of the samples, which alone may decide in which basin they end; the others start from the best estimate
   so far. One after another such trainings come nearer to the truth and in the end pass it. Where frequencies are
   wrong, predictions cut through clusters of the features or join two of them, so that the best is the one whose
   predictions agree most with the clusters (ClassAMI, :mod:`residapt.evaluate.class_ami`);
3. the training as it is once more, with what that one has found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from residapt.data.batches import derived_seed
from residapt.data.domains import Images
from residapt.data.split import Part
from residapt.distributed import from_main
from residapt.evaluate.class_ami import cluster_agreement
from residapt.evaluate.collect import outputs_of
from residapt.evaluate.evidence import subset
from residapt.evaluate.predict import evaluating
from residapt.methods.base import AdaptingMethod
from residapt.methods.config import MethodConfig
from residapt.methods.extras.prior import TargetPrior
from residapt.train import Method, TrainConfig

SAMPLE = 3000
"""Target images whose predictions and clusters are compared."""


@dataclass(frozen=True)
class Round:
    """One training: the settings of the method and of the loop."""

    settings: MethodConfig
    train: TrainConfig
    number: int = 0

    def numbered(self, number: int, prior: TargetPrior | None) -> Round:
        """The same with another order of the samples and, if given, the class frequencies of ``prior``."""
        start = {} if prior is None else {"start": prior.frequencies}
        settings = {"prior": self.settings.prior.model_copy(update=start)}
        order = {"seed": derived_seed(self.train.seed, "round", number)}
        return Round(self.settings.model_copy(update=settings), self.train.model_copy(update=order), number)

    def short(self) -> Round:
        """A shorter one whose estimate follows faster, since only the estimate is used."""
        search = self.settings.prior.search
        faster = {"prior": self.settings.prior.model_copy(update={"smoothing": search.smoothing})}
        steps = {"steps": max(1, round(search.share * self.train.steps))}
        return Round(self.settings.model_copy(update=faster), self.train.model_copy(update=steps), self.number)


class Ended(NamedTuple):
    """What is read from a finished training."""

    prior: TargetPrior
    agreement: Callable[[], float]
    """How well predictions and clusters of the target agree; computed only where it is read."""


def rounds(first: Round) -> Generator[Round, Ended, None]:
    """The trainings one after another; the caller answers each with how it ended."""
    search = first.settings.prior.search
    ended = yield first
    if search.rounds == 0 or ended.prior.moved < search.settled:
        return
    best, found = -math.inf, None
    for number in range(1, search.rounds + 1):
        from_start = 2 * number <= search.rounds + 1
        ended = yield first.short().numbered(number, None if from_start else found)
        agreement = ended.agreement()
        if agreement > best:
            best, found = agreement, ended.prior
    yield first.numbered(search.rounds + 1, found)


def in_rounds(first: Round, adapt: Callable[[Round], Method], target: Images) -> tuple[Method, list[dict[str, Any]]]:
    """Adapt once, or as often as the class frequencies ask for; the last training is the result.

    Args:
        first: The training as it was configured.
        adapt: Runs one training, always from the same source network.
        target: Unlabelled images on which predictions are compared with clusters.

    Returns:
        The last trained method, and for each training how far its estimate has moved.
    """
    story: list[dict[str, Any]] = []
    todo = rounds(first)
    now = next(todo)
    while True:
        method = adapt(now)
        prior = method.prior if isinstance(method, AdaptingMethod) else None
        if prior is None or prior.config.kind != "estimated":
            return method, story
        entry = {"steps": now.train.steps, "moved": round(prior.moved, 5), **prior.record()}
        story.append(entry)
        try:
            now = todo.send(Ended(prior, partial(_agreement, method, target, entry)))
        except StopIteration:
            return method, story


def _agreement(method: Method, target: Images, entry: dict[str, Any]) -> float:
    sample = Part(target, subset(len(target), SAMPLE, seed=0))
    with evaluating(method.streams):
        logits, features = outputs_of(method.streams, sample, "target", next(method.parameters()).device)
    # Every process must choose the same round.
    found = float(from_main(torch.tensor(cluster_agreement(logits, functional.normalize(features, dim=1)))))
    entry["agreement"] = round(found, 5)
    return found
