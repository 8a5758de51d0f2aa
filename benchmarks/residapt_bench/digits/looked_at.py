"""What the label-free scores of a benchmark run look at: a fixed part of both domains, before and after."""

from __future__ import annotations

import torch
from torch import nn

from residapt.data.split import Part, part_of
from residapt.evaluate.collect import collect, plain_streams
from residapt.evaluate.evidence import Evidence, subset
from residapt.train import Method
from residapt_bench.digits.tasks import Task

IMAGES = 3000
"""Images of each domain."""


class LookedAt:
    """The same images for every run of a task: unlabelled target images of training, held-out source images."""

    def __init__(self, task: Task, features: str | None) -> None:
        held_out = next(item.data for item in task.evaluations if item.name == "source_test")
        self.held_out = part_of(held_out, subset(len(held_out.images), IMAGES, seed=0))
        self.target = Part(task.pair.target, subset(len(task.pair.target), IMAGES, seed=0))
        self.features, self.device = features, torch.device("cpu")

    def before(self, network: nn.Module) -> Evidence:
        """Outputs of the source network."""
        plain = plain_streams(network, self.features)
        return collect(plain, self.held_out, self.target, target_stream="source", device=self.device)

    def after(self, method: Method) -> Evidence:
        """Outputs of the adapted network."""
        return collect(method.two, self.held_out, self.target, target_stream="target", device=self.device)
