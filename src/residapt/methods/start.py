"""Start a method's target stream from that of an adapter."""

from __future__ import annotations

import torch
from torch import nn

from residapt.streams import TwoStream


def same_parts(first: TwoStream, second: TwoStream) -> bool:
    """Whether two streams transform the same layers in the same form, with the same parameters of their own."""
    forms = [(streams.config.form, streams.config.nonlinearity) for streams in (first, second)]
    return (
        type(first) is type(second) is TwoStream
        and forms[0] == forms[1]
        and list(first.layers) == list(second.layers)
        and first.target_parameters.named().keys() == second.target_parameters.named().keys()
        and first.statistics.named().keys() == second.statistics.named().keys()
    )


@torch.no_grad()
def start_from(streams: TwoStream, other: TwoStream) -> None:
    """Take over transforms with their ranks, parameters of its own and batch-norm statistics; before any optimiser."""
    for name in streams.layers:
        transform, like = streams.transform(name), streams.source_tensors(name)[0]
        for key, factor in other.transform(name).named_parameters():
            setattr(transform, key, nn.Parameter(factor.detach().clone().to(like)))
    streams.target_parameters.copy_from(other.target_parameters.named())
    for name, own in streams.statistics.named().items():
        own.copy_(other.statistics.named()[name])
