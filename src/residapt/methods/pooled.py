r"""Pooled: the source images and the few labelled target images as one training set for one network.

.. math:: L = \frac{\sum_{i \in s} -\log p_{y_i}(x_i) + w \sum_{i \in t} -\log p_{y_i}(x_i)}{n_s + w\,n_t}

The baseline "pooled real + synthetic" of the paper's UAV experiment: no domain is told from another. By default half of
every batch is of the target, however few its labelled images are (``train.few_batch``); ``few_weight`` is w.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from residapt.data.batches import Batch
from residapt.errors import ConfigError
from residapt.methods.config import MethodConfig
from residapt.methods.fine_tune import needs_labels
from residapt.methods.registry import register
from residapt.methods.source_only import SourceOnly, single_stream
from residapt.streams import TwoStream
from residapt.train.method import Losses, weighted_sum


class Pooled(SourceOnly):
    """Cross-entropy on source and labelled target images together."""

    name = "pooled"

    def __init__(self, two: TwoStream, few_weight: float) -> None:
        super().__init__(two)
        self.few_weight = few_weight

    def losses(self, batch: Batch, progress: float) -> Losses:
        """One classification loss over one batch of both."""
        if batch.few is None or batch.few_labels is None:
            raise ConfigError(needs_labels(self.name))
        logits = self.two(torch.cat([batch.source, batch.few]))
        each = functional.cross_entropy(logits, torch.cat([batch.labels, batch.few_labels]), reduction="none")
        weights = torch.ones_like(each)
        weights[len(batch.labels) :] = self.few_weight
        return weighted_sum({"class": (weights * each).sum() / weights.sum()}, {})


@register("pooled")
def build(model: nn.Module, config: MethodConfig, example: Tensor) -> Pooled:
    """One network, with one set of batch-norm statistics."""
    return Pooled(single_stream(model, config), config.few_weight)
