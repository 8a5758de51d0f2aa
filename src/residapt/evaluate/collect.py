"""Input of the label-free scores: outputs of a network on held-out source and unlabelled target images."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from residapt.data.domains import Images, Labelled
from residapt.evaluate.evidence import Evidence
from residapt.evaluate.predict import evaluating
from residapt.streams import Stream, TwoStream
from residapt.transform import TransformConfig

WIDEST = 2048
"""Features wider than this are mapped at random to as many numbers, which keeps distances."""


def plain_streams(network: nn.Module, features: str | None) -> TwoStream:
    """A network alone: both domains go through its source stream."""
    return TwoStream(network, TransformConfig(include=(), features=features, norm="shared"))


def collect(
    streams: TwoStream, held_out: Labelled, target: Images, *, target_stream: Stream, device: torch.device
) -> Evidence:
    """Logits and features of both domains, in order."""
    with evaluating(streams):
        source = outputs_of(streams, held_out.images, "source", device)
        found = outputs_of(streams, target, target_stream, device)
    return Evidence(source[0], held_out.labels, source[1], *found)


def outputs_of(
    streams: TwoStream, images: Images, stream: Stream, device: torch.device, batch_size: int = 64
) -> tuple[Tensor, Tensor]:
    """Logits and features of all images, in order, on the CPU."""
    logits, features = [], []
    for x in batches_of(images, batch_size):
        outputs = streams.outputs(x.to(device), stream=stream)
        logits.append(outputs.logits.float().cpu())
        features.append(_narrow(outputs.features.float().cpu()))
    return torch.cat(logits), torch.cat(features)


def batches_of(images: Images, batch_size: int = 64) -> Iterator[Tensor]:
    """All images in order; the same pixels every time."""
    generator = torch.Generator().manual_seed(0)
    for index in torch.split(torch.arange(len(images)), batch_size):
        yield images.fetch(index, generator)


def _narrow(features: Tensor) -> Tensor:
    width = features.shape[1]
    if width <= WIDEST:
        return features
    generator = torch.Generator().manual_seed(0)
    return features @ torch.randn(width, WIDEST, generator=generator) / math.sqrt(WIDEST)
