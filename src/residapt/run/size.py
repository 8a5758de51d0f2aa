"""How large the adapter of a run will be: reported before it begins, since most of it may be the source network."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from residapt.methods import build_method
from residapt.methods.fit import example_of
from residapt.report.words import megabytes
from residapt.run.request import Setup
from residapt.storage.adapter import has_adapter, own_tensors
from residapt.storage.base_network import named_tensors
from residapt.streams import TwoStream


def size_line(setup: Setup) -> str | None:
    """One sentence about the adapter's size; None where the method writes none."""
    example = example_of(setup.pair.source.images) if setup.frozen is None else setup.frozen.example
    network, settings = copy.deepcopy(setup.network), setup.method_config
    with torch.random.fork_rng(devices=[]):  # the run begins as it would without this line
        streams = build_method(setup.config.method, network, settings, example=example.to(setup.device)).streams
    if not has_adapter(streams):
        return None
    whole = _bytes(named_tensors(setup.whole(setup.network)).values())
    own, carried = _of_target(streams), _bytes(named_tensors(setup.network).values())
    if streams.fixed:
        return f"The adapter will be {megabytes(own)} or less, of a network of {megabytes(whole)} that stays as it is."
    size = f"The adapter will be {megabytes(own + carried)} or less, of a network of {megabytes(whole)}: it carries "
    size += "the source network, which is trained as well."
    if not streams.layers:
        return size
    small = _of_target(TwoStream(copy.deepcopy(setup.whole(setup.network)), setup.config.method_config.transform))
    return f"{size} With --freeze base it would be {megabytes(small)} or less."


def _of_target(streams: TwoStream) -> int:
    """What the target stream has for itself; pruned transforms are smaller."""
    factors = (factor for name in streams.layers for factor in streams.transform(name).parameters())
    return _bytes([*factors, *own_tensors(streams).values()])


def _bytes(tensors: Iterable[Tensor | nn.Parameter]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
