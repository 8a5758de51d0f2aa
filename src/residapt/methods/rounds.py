r"""Trainings that are repeated from the same network, with the target's class frequencies that were found.

Within one training the network's predictions and the estimate of the class frequencies hold on to each other: what was
named wrongly under the first assumption stays sure of its name, and the estimate counts it there. The frequencies
outlive the network, though: a training that starts anew from the source network with a better assumption names fewer
images wrongly, and its own estimate is better again. So:

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
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

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

LOOKED_AT = 3000
"""Target images whose predictions and clusters are compared."""

S = TypeVar("S", bound=MethodConfig)


@dataclass(frozen=True)
class Round(Generic[S]):
    """What one training is told."""

    settings: S
    train: TrainConfig
    number: int = 0

    def numbered(self, number: int, prior: TargetPrior | None) -> Round[S]:
        """The same with another order of the samples and, if there is one, the class frequencies of ``prior``."""
        start = {} if prior is None else {"start": prior.frequencies}
        settings = {"prior": self.settings.prior.model_copy(update=start)}
        order = {"seed": derived_seed(self.train.seed, "round", number)}
        return Round(self.settings.model_copy(update=settings), self.train.model_copy(update=order), number)

    def short(self) -> Round[S]:
        """A shorter one whose estimate follows faster, since it is all that is wanted of it."""
        search = self.settings.prior.search
        faster = {"prior": self.settings.prior.model_copy(update={"smoothing": search.smoothing})}
        steps = {"steps": max(1, round(search.share * self.train.steps))}
        return Round(self.settings.model_copy(update=faster), self.train.model_copy(update=steps), self.number)


class Ended(NamedTuple):
    """What is asked of a training when it has ended."""

    prior: TargetPrior
    agreement: Callable[[], float]
    """How well predictions and clusters of the target agree; asked for where it counts, since it takes a moment."""


def rounds(first: Round[S]) -> Generator[Round[S], Ended, None]:
    """The trainings one after another; each is answered by how it ended."""
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


class HasMethod(Protocol):
    """What a training gives."""

    @property
    def method(self) -> Method:
        """The trained method."""
        ...


T = TypeVar("T", bound=HasMethod)


def in_rounds(first: Round[S], run: Callable[[Round[S]], T], target: Images) -> tuple[T, list[dict[str, Any]]]:
    """Train once, or as often as the class frequencies ask for; the last training counts.

    ``target`` are unlabelled images to look at. Gives the last training, and of each how far its estimate has moved.
    """
    story: list[dict[str, Any]] = []
    todo = rounds(first)
    now = next(todo)
    while True:
        last = run(now)
        prior = last.method.prior if isinstance(last.method, AdaptingMethod) else None
        if prior is None or prior.config.kind != "estimated":
            return last, story
        told = {"steps": now.train.steps, "moved": round(prior.moved, 5), **prior.record()}
        story.append(told)
        try:
            now = todo.send(Ended(prior, partial(_agreement, last.method, target, told)))
        except StopIteration:
            return last, story


def _agreement(method: Method, target: Images, told: dict[str, Any]) -> float:
    looked_at = Part(target, subset(len(target), LOOKED_AT, seed=0))
    with evaluating(method.two):
        logits, features = outputs_of(method.two, looked_at, "target", next(method.parameters()).device)
    # Every process must choose the same round.
    found = float(from_main(torch.tensor(cluster_agreement(logits, functional.normalize(features, dim=1)))))
    told["agreement"] = round(found, 5)
    return found
