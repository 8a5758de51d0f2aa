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
from residapt.transform.modes import evaluation_mode

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
    with evaluation_mode(module), torch.no_grad():
        yield


def predict_logits(
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


class Predictor(nn.Module):
    """What has logits for each stream."""

    def predict(self, x: Tensor, stream: Stream = "target") -> Tensor:
        """Logits of one stream."""
        raise NotImplementedError


def accuracy(method: Predictor, evaluation: Evaluation) -> float:
    """Share of correct predictions, in per cent."""
    device = next(method.parameters()).device
    with evaluating(method):
        logits = predict_logits(lambda x: method.predict(x, evaluation.stream), evaluation.data.images, device=device)
    return 100.0 * float((logits.argmax(1) == evaluation.data.labels).double().mean())
