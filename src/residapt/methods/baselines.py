"""Methods without adaptation, which every table needs beside the others, and who may see target labels.

A :class:`~residapt.data.domains.DomainPair` has no field for the labels of the unlabelled target. Callers that hold
such labels, to score with, pass them to :func:`training_pair` as ``target_labels`` for every method alike; only the
oracle ``target_only`` gets them.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from residapt.data.batches import Batch
from residapt.data.domains import DomainPair, Labelled
from residapt.data.strong import Change
from residapt.errors import ConfigError
from residapt.methods.config import MethodConfig
from residapt.methods.registry import register, shared_streams
from residapt.streams import Stream, TwoStream
from residapt.train.method import Losses, Method, weighted_sum


class SourceOnly(Method):
    """Cross-entropy on the source; target images are not used."""

    name = "source_only"
    reads_target = False

    def __init__(self, streams: TwoStream, change: Change | None = None) -> None:
        super().__init__()
        self.streams, self.change = streams, change

    def losses(self, batch: Batch, progress: float) -> Losses:
        """Classification loss on the source."""
        images = batch.source if self.change is None else self.change(batch.source)
        return weighted_sum({"class": functional.cross_entropy(self.streams(images), batch.labels)}, {})

    def predict(self, x: Tensor, stream: Stream = "target") -> Tensor:
        """Both domains go through the source network, its batch-norm statistics included."""
        logits: Tensor = self.streams(x, stream="source")
        return logits


class TargetOnly(SourceOnly):
    """Cross-entropy on the labelled target, which :func:`training_pair` puts in the place of the source."""

    name = "target_only"


class FineTune(Method):
    r"""Cross-entropy on the labelled target images and nothing else.

    .. math:: L = \frac1n \sum_i -\log p_{y_i}(x_i^t)

    The supervised baseline of the paper's UAV experiment. It starts from the network as given, so train it on the
    source first. ``few_weight`` does not count: there is nothing to weigh it against.
    """

    name = "fine_tune"

    def __init__(self, streams: TwoStream) -> None:
        super().__init__()
        self.streams = streams

    def losses(self, batch: Batch, progress: float) -> Losses:
        """Classification loss on the labelled target images."""
        images, labels = _labelled_target(batch, self.name)
        logits = self.streams(images, stream="target")
        return weighted_sum({"target_class": functional.cross_entropy(logits, labels)}, {})


class Pooled(SourceOnly):
    r"""Cross-entropy on source and labelled target images as one training set for one network.

    .. math:: L = \frac{\sum_{i \in s} -\log p_{y_i}(x_i) + w \sum_{i \in t} -\log p_{y_i}(x_i)}{n_s + w\,n_t}

    The baseline "pooled real + synthetic" of the paper's UAV experiment. By default half of every batch is of the
    target, however few its labelled images are (``train.few_batch``); ``few_weight`` is w.
    """

    name = "pooled"

    def __init__(self, streams: TwoStream, few_weight: float) -> None:
        super().__init__(streams)
        self.few_weight = few_weight

    def losses(self, batch: Batch, progress: float) -> Losses:
        """One classification loss over one batch of both."""
        images, labels = _labelled_target(batch, self.name)
        logits = self.streams(torch.cat([batch.source, images]))
        each = functional.cross_entropy(logits, torch.cat([batch.labels, labels]), reduction="none")
        weights = torch.ones_like(each)
        weights[len(batch.labels) :] = self.few_weight
        return weighted_sum({"class": (weights * each).sum() / weights.sum()}, {})


def _labelled_target(batch: Batch, method: str) -> tuple[Tensor, Tensor]:
    if batch.few is None or batch.few_labels is None:
        raise ConfigError(_needs_labels(method))
    return batch.few, batch.few_labels


def _needs_labels(method: str) -> str:
    return (
        f"method '{method}' learns from labelled target images, but none were given. Give some with "
        "--target-labels (DomainPair.few), or use an unsupervised method such as rpt."
    )


def _single_stream(model: nn.Module, config: MethodConfig) -> TwoStream:
    """The network alone, with one set of batch-norm statistics."""
    transform = config.transform.model_copy(update={"norm": "shared"})
    return shared_streams(model, config.model_copy(update={"transform": transform}))


@register("source_only")
def build_source_only(model: nn.Module, config: MethodConfig, example: Tensor) -> SourceOnly:
    """The source network as it is, the floor of every table."""
    return SourceOnly(_single_stream(model, config), config.augment.build())


@register("target_only")
def build_target_only(model: nn.Module, config: MethodConfig, example: Tensor) -> TargetOnly:
    """The oracle, trained on target labels: the ceiling of every table."""
    return TargetOnly(_single_stream(model, config))


@register("fine_tune")
def build_fine_tune(model: nn.Module, config: MethodConfig, example: Tensor) -> FineTune:
    """The source network, trained further on the labelled target images alone."""
    return FineTune(shared_streams(model, config))


@register("pooled")
def build_pooled(model: nn.Module, config: MethodConfig, example: Tensor) -> Pooled:
    """Source and labelled target images as one training set."""
    return Pooled(_single_stream(model, config), config.few_weight)


def is_oracle(method: Method) -> bool:
    """Whether a method trains on labels of the target; its results are no results of adaptation."""
    return isinstance(method, TargetOnly)


def training_pair(method: Method, pair: DomainPair, target_labels: Labelled | None = None) -> DomainPair:
    """The pair that a method trains on; only the oracle's holds ``target_labels``.

    The oracle gets the labelled target in the source's place: ``target_labels``, or the labelled target images of the
    pair where that is all there is.
    """
    if isinstance(method, (FineTune, Pooled)) and pair.few is None:
        raise ConfigError(_needs_labels(method.name))
    if not is_oracle(method):
        return pair
    labelled = pair.few if target_labels is None else target_labels
    if labelled is None:
        raise ConfigError(
            f"method '{method.name}' is the oracle and needs labelled target images, but none were given. "
            "Give them as target_labels, or leave the method out."
        )
    return replace(pair, source=labelled, target=labelled.images, few=None)
