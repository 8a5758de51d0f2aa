"""Start a method's target stream from that of an adapter."""

from __future__ import annotations

import torch
from torch import nn

from residapt.streams import TwoStream
from residapt.transform import ResidualTransform


def can_start(first: TwoStream, second: TwoStream) -> bool:
    """Whether the second can start from the first: the same layers in the same form, the same parameters of its own.

    Where there are layers, the first must have a residual left, as the stream loss needs one.
    """
    forms = [(streams.config.form, streams.config.nonlinearity) for streams in (first, second)]
    return (
        type(first) is type(second) is TwoStream
        and forms[0] == forms[1]
        and list(first.layers) == list(second.layers)
        and first.target_parameters.named().keys() == second.target_parameters.named().keys()
        and first.statistics.named().keys() == second.statistics.named().keys()
        and (not first.layers or bool(first.residuals()))
    )


@torch.no_grad()
def start_from(streams: TwoStream, other: TwoStream) -> None:
    """Take over transforms with their ranks, parameters of its own and batch-norm statistics; before any optimiser.

    A layer that rank selection had shared keeps its new transform, with :math:`B_1 = 0`: it changes nothing yet, but
    the new domain may need it.
    """
    for name in streams.layers:
        if not other.transform(name).alive:
            _silence(streams.transform(name))
            continue
        transform, like = streams.transform(name), streams.source_tensors(name)[0]
        for key, factor in other.transform(name).named_parameters():
            setattr(transform, key, nn.Parameter(factor.detach().clone().to(like)))
    streams.target_parameters.copy_from(other.target_parameters.named())
    for name, own in streams.statistics.named().items():
        own.copy_(other.statistics.named()[name])


def _silence(transform: nn.Module) -> None:
    """Let a transform change nothing until it is trained."""
    last = transform.B1 if isinstance(transform, ResidualTransform) else transform.B
    assert isinstance(last, nn.Parameter)
    last.zero_()
