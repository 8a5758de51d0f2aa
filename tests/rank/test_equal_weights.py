"""Ranks by need: with ``group_weights = "equal"`` a layer's shape does not decide whether it keeps its ranks."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from residapt.rank import RankConfig, shrink
from residapt.rank.penalty import GroupedCore, group_weights, grouped_core
from residapt.streams import TwoStream

LAYERS = {
    "depthwise": lambda: nn.Conv2d(96, 96, 3, groups=96, bias=False),
    "pointwise": lambda: nn.Conv2d(320, 1280, 1, bias=False),
    "linear": lambda: nn.Linear(800, 500, bias=False),
    "conv": lambda: nn.Conv2d(1, 20, 5, bias=False),
}
RANK = 16


@cache
def made(kind: str) -> TwoStream:
    torch.manual_seed(0)
    return TwoStream(nn.Sequential(LAYERS[kind]()).double(), left_rank=RANK, right_rank=RANK)


def one_layer(kind: str) -> TwoStream:
    return copy.deepcopy(made(kind))


def core(streams: TwoStream) -> Tensor:
    (name,) = streams.layers
    return grouped_core(streams.transform(name), *streams.source_tensors(name)).core


@torch.no_grad()
def plant(streams: TwoStream, rows: int, columns: int, signal: float, noise: float, seed: int) -> None:
    """T = noise as at the start, plus entries of size ``signal`` in some of the rows and columns."""
    (name,) = streams.layers
    generator = torch.Generator().manual_seed(seed)
    wanted = torch.randn(RANK, RANK, generator=generator, dtype=torch.float64) * noise / RANK**0.5
    wanted[:rows, :columns] += signal / RANK**0.5
    transform, (weight, _) = streams.transform(name), streams.source_tensors(name)
    transform.D.add_(wanted - transform.core(weight))


def ranks_along(kind: str, steps: int, weights: Any, *planted: Any) -> list[tuple[int, int]]:
    """The ranks after each of so many proximal steps."""
    streams = one_layer(kind)
    plant(streams, *planted)
    found = []
    for _ in range(steps):
        shrink(streams, RankConfig(step=3e-3, group_weights=weights))
        found += list(streams.ranks().values())
    return found


@settings(deadline=None, max_examples=4)
@given(rows=st.integers(3, 8), columns=st.integers(3, 8), signal=st.floats(16, 40), seed=st.integers(0, 10_000))
def test_layers_of_all_shapes_keep_the_ranks_of_an_equal_signal(
    rows: int, columns: int, signal: float, seed: int
) -> None:
    first, *others = (ranks_along(kind, 12, "equal", rows, columns, signal, 0.5, seed) for kind in LAYERS)
    assert all(other == first for other in others)
    assert first[-1] == (rows, columns)


@settings(deadline=None, max_examples=3)
@given(seed=st.integers(0, 10_000))
def test_layers_of_noise_lose_their_ranks_at_the_same_time(seed: int) -> None:
    first, *others = (ranks_along(kind, 14, "equal", 0, 0, 0.0, 1.0, seed) for kind in LAYERS)
    assert all(other == first for other in others)
    assert first[0] == (RANK, RANK)
    assert first[-1] == (0, 0)


def test_by_the_papers_weights_the_shape_decides() -> None:
    """The counterpart: the same noise is gone on the linear layer and kept on the depthwise one."""
    small, large = (ranks_along(kind, 6, "layer", 0, 0, 0.0, 1.0, 0)[-1] for kind in ("depthwise", "linear"))
    assert large == (0, 0)
    assert small == (RANK, RANK)


@given(rows=st.integers(1, 40), columns=st.integers(1, 40), start=st.floats(0.01, 10.0))
def test_the_weights_are_what_a_group_has_at_the_start(rows: int, columns: int, start: float) -> None:
    """Whatever the layer's size; T's entries are random then."""
    T = start * torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows), dtype=torch.float64)
    for outputs, inputs in ((1, 9), (1280, 320)):
        column_weight, row_weight = group_weights("equal", GroupedCore(T, outputs, inputs, start))
        assert column_weight == pytest.approx(16 * start * rows**0.5)
        assert row_weight == pytest.approx(16 * start * columns**0.5)
    if rows * columns > 900:
        assert column_weight == pytest.approx(16 * float(T.norm(dim=0).mean()), rel=0.1)


@pytest.mark.parametrize("kind", LAYERS)
def test_at_the_start_columns_have_the_size_that_is_compared_with(kind: str) -> None:
    streams = one_layer(kind)
    (name,) = streams.layers
    assert streams.start_size(name) * RANK**0.5 == pytest.approx(float(core(streams).norm(dim=0).mean()))


@pytest.mark.parametrize("kind", LAYERS)
def test_the_shrunk_core_is_reached_whatever_the_layers_weights(kind: str) -> None:
    """A1 and A2 alone realise only a part of the move, and the smaller the layer's weights the less."""
    streams = one_layer(kind)
    plant(streams, 4, 4, 20.0, 0.5, 1)
    before = core(streams).detach().clone()
    column_weight, row_weight = group_weights(
        "equal", GroupedCore(before, 1, 1, streams.start_size(next(iter(streams.layers))))
    )
    from residapt.rank import two_step_prox

    t = 1e-3
    shrunk = two_step_prox(before, column_threshold=t * column_weight, row_threshold=t * row_weight)
    shrink(streams, RankConfig(step=t, group_weights="equal"))
    torch.testing.assert_close(core(streams), shrunk)
