"""Predictions and accuracy. Labels for scoring live here, in an object that training never sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from residapt.data.domains import Images, Labelled
from residapt.streams import Stream
from residapt.train.events import Callback, CallbackState
from residapt.train.method import Method

Protocol = Literal["transductive", "held-out"]


@dataclass(frozen=True)
class Evaluation:
    """A labelled set that is only scored, with a stamp: were its images seen in training, unlabelled?"""

    name: str
    data: Labelled
    stream: Stream = "target"
    protocol: Protocol = "held-out"


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; the module's mode is restored."""
    was_training = module.training
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        module.train(was_training)


def logits_of(
    predict: Callable[[Tensor], Tensor], images: Images, *, batch_size: int = 512, device: torch.device
) -> Tensor:
    """Logits of all images, in order, on the CPU."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.empty(0)
    for index in torch.split(torch.arange(len(images)), batch_size):
        found = predict(images.fetch(index, generator).to(device)).float()
        if not len(logits):
            # One block from the start: pieces that stay, between batches that go, keep the heap from being used again.
            logits = torch.empty(len(images), *found.shape[1:])
        logits[index] = found.cpu()
    return logits


def accuracy(method: Method, evaluation: Evaluation) -> float:
    """Share of correct predictions, in per cent."""
    device = next(method.parameters()).device
    with evaluating(method):
        logits = logits_of(lambda x: method.predict(x, evaluation.stream), evaluation.data.images, device=device)
    return 100.0 * float((logits.argmax(1) == evaluation.data.labels).double().mean())


class Curve(Callback):
    """Accuracy along the run, for the record; it is never fed back into training."""

    def __init__(self, evaluations: list[Evaluation], every: int) -> None:
        self.evaluations, self.every = evaluations, every
        self.points: list[dict[str, float]] = []

    def on_start(self, method: Method, step: int, steps: int) -> None:
        """A training that begins anew has no points yet; those of one that goes on are restored afterwards."""
        self.points = []

    def on_step(self, method: Method, step: int) -> None:
        """Evaluate when due."""
        if self.every and step % self.every == 0:
            self._measure(method, step)

    def on_end(self, method: Method, step: int) -> None:
        """Evaluate at the end, once."""
        if not self.points or self.points[-1]["step"] != step:
            self._measure(method, step)

    def state(self) -> CallbackState:
        """The points so far."""
        return CallbackState({"points": self.points})

    def restore(self, method: Method, state: CallbackState) -> None:
        """Go on after the points so far."""
        self.points = [dict(point) for point in state.values["points"]]

    def _measure(self, method: Method, step: int) -> None:
        scores = {evaluation.name: accuracy(method, evaluation) for evaluation in self.evaluations}
        self.points.append({"step": step, **scores})
