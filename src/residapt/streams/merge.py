"""The target stream as a plain module: same types, same state-dict keys and shapes, no trace of residapt."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from residapt.errors import ModelError
from residapt.streams.two_stream import TwoStream
from residapt.transform.modes import evaluation_mode


@torch.no_grad()
def merge_and_unload(streams: TwoStream, example: Tensor | None = None, *, tolerance: float = 1e-4) -> nn.Module:
    """A copy of the network with the target weights and statistics baked in.

    With an ``example`` batch the result is compared with the live target stream, and refused if it differs by more
    than ``tolerance`` relative to the largest logit.
    """
    streams = streams.eval_model()
    merged = copy.deepcopy(streams.model)
    own = {**dict(merged.named_parameters()), **dict(merged.named_buffers())}
    for name, tensor in streams.target_state().items():
        own[name].copy_(tensor)
    if example is not None:
        check_merge(streams, merged, example, tolerance)
    return merged


@torch.no_grad()
def check_merge(streams: TwoStream, merged: nn.Module, example: Tensor, tolerance: float) -> None:
    """Refuse a merged module whose logits differ from the live target stream's."""
    with evaluation_mode(streams, merged):
        live, plain = streams(example, stream="target"), merged(example)
        plain = getattr(plain, "logits", plain)
        difference = float((live - plain).abs().max() / live.abs().max().clamp_min(1.0))
    if not difference <= tolerance:
        raise ModelError(
            f"the merged model differs from the live target stream by {difference:.2e} (allowed {tolerance:.0e}): "
            "the network may compute with weights that residapt does not see, such as copies made at construction."
        )
