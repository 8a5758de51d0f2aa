from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from residapt.errors import ConfigError, TrainingError
from residapt.rank import RankChange, RankConfig, grouped_core, shrink, two_step_prox
from residapt.streams import TwoStream


def linear_two(left: int = 6, right: int = 5, *, bias: bool = True, **settings: Any) -> TwoStream:
    torch.manual_seed(0)
    return TwoStream(nn.Linear(7, 4, bias=bias).double(), left_rank=left, right_rank=right, **settings)


def spread(streams: TwoStream) -> None:
    """Give rows and columns of T very different sizes, so that only some of them are shrunk away."""
    with torch.no_grad():
        transform = streams.transform("model")
        transform.A1.mul_(torch.logspace(-3, 0, transform.ranks[0]))
        transform.A2.mul_(torch.logspace(0, -3, transform.ranks[1]))


@pytest.mark.parametrize("prox", ["two-step", "split", "exact"])
@pytest.mark.parametrize("bias", [True, False])
def test_faint_rows_and_columns_go_and_strong_ones_stay(prox: Any, bias: bool) -> None:
    streams = linear_two(bias=bias)
    spread(streams)
    config = RankConfig(step=1e-3, prox=prox)
    (change,) = shrink(streams, config)
    assert change.layer == "model"
    assert change.before == (6, 5)
    assert change.after == streams.ranks()["model"]
    assert 0 < change.after[0] < 6
    assert 0 < change.after[1] < 5


def test_rows_and_columns_are_removed_by_the_norms_of_the_shrunk_core() -> None:
    """Method notes 2.7: the refit realises only a part of the move, so T computed anew would hide the zeros."""
    streams = linear_two()
    spread(streams)
    transform = streams.transform("model")
    weight, bias = streams.source_tensors("model")
    core = grouped_core(transform, weight, bias).core.detach()
    # N = 8 counts the bias column, C = 4.
    shrunk = two_step_prox(core, column_threshold=1e-2 * 8**0.5, row_threshold=1e-2 * 2.0)
    before = copy.deepcopy(transform)
    shrink(streams, RankConfig(step=1e-2))
    rows, columns = shrunk.norm(dim=1) > 0, shrunk.norm(dim=0) > 0
    assert transform.ranks == (int(rows.sum()), int(columns[:5].sum()))
    assert torch.equal(transform.B1, before.B1[:, rows])
    assert torch.equal(transform.B2, before.B2[:, columns[:5]])
    assert torch.equal(transform.D, before.D[rows][:, columns[:5]])
    refitted = grouped_core(transform, weight, bias).core
    assert bool((refitted.norm(dim=0) > 0).all())


@given(left=st.integers(0, 4), right=st.integers(0, 4), step=st.floats(1e-4, 1.0), seed=st.integers(0, 99))
def test_ranks_never_rise_and_the_stream_stays_finite(left: int, right: int, step: float, seed: int) -> None:
    streams = linear_two(left, right, seed=seed)
    x = torch.randn(3, 7, dtype=torch.float64)
    before = streams.ranks()["model"]
    for _ in range(3):
        shrink(streams, RankConfig(step=step))
        after = streams.ranks()["model"]
        assert after[0] <= before[0]
        assert after[1] <= before[1]
        assert bool(torch.isfinite(streams(x, stream="target")).all())
        before = after


def test_a_large_step_shares_every_layer(nets: Callable[..., Any]) -> None:
    model, x = nets("lenet")
    streams = TwoStream(model, left_rank=4, right_rank=4)
    changes = shrink(streams, RankConfig(step=10.0))
    assert changes == [RankChange(name, (4, 4), (0, 0)) for name in streams.layers]
    assert streams.energy() is None
    assert torch.equal(streams(x, stream="target"), streams(x, stream="source"))
    assert shrink(streams, RankConfig(step=10.0)) == []


def test_the_bias_column_may_die_alone_and_live_alone() -> None:
    streams = linear_two()
    transform = streams.transform("model")
    with torch.no_grad():
        transform.bias_A2.zero_()
    shrink(streams, RankConfig(step=1e-4))
    assert transform.bias_rank == 0
    assert transform.ranks[1] == 5
    streams = linear_two()
    transform = streams.transform("model")
    with torch.no_grad():
        transform.A2.zero_()
    shrink(streams, RankConfig(step=1e-4))
    assert transform.bias_rank == 1
    assert transform.ranks[1] == 0
    assert transform.alive
    weight, bias = streams.source_tensors("model")
    assert torch.equal(streams.target_state()["weight"], weight)
    assert not torch.equal(streams.target_state()["bias"], bias)


def test_the_printed_weights_prune_wide_layers_first() -> None:
    """sqrt(N), sqrt(C) of Eq. 10 against the group sizes: the choice decides which layer loses ranks."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(200, 100), nn.Linear(100, 2)).double()

    def ranks(kind: Any, step: float) -> dict[str, tuple[int, int]]:
        streams = TwoStream(copy.deepcopy(model), left_rank=4, right_rank=4)
        shrink(streams, RankConfig(step=step, group_weights=kind))
        return streams.ranks()

    assert ranks("layer", 0.04) == {"0": (0, 0), "1": (4, 4)}
    assert ranks("group", 0.04) == {"0": (4, 4), "1": (4, 4)}


def test_repeated_steps_shrink_to_nothing() -> None:
    streams = linear_two()
    sums = []
    for _ in range(60):
        shrink(streams, RankConfig(step=2e-2))
        sums.append(sum(streams.ranks()["model"]))
    assert sums == sorted(sums, reverse=True)
    assert sums[-1] == 0


def test_nothing_is_replaced_when_nothing_is_pruned() -> None:
    streams = linear_two()
    factors = dict(streams.transforms.named_parameters())
    assert shrink(streams, RankConfig(step=1e-5)) == []
    assert all(parameter is factors[name] for name, parameter in streams.transforms.named_parameters())


def test_the_vector_form_is_left_alone() -> None:
    streams = linear_two(form="vector", left=2)
    assert shrink(streams, RankConfig(step=10.0)) == []
    assert streams.ranks() == {"model": (2, 2)}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_transform_that_is_not_finite_is_named(value: float) -> None:
    """NaN compares false with everything; without a check the layer would be pruned away in silence."""
    streams = linear_two()
    with torch.no_grad():
        streams.transform("model").D[0, 0] = value
    with pytest.raises(TrainingError, match=r"'model'.*train\.transform\.lr"):
        shrink(streams, RankConfig())


def test_when_a_proximal_step_is_due() -> None:
    config = RankConfig(every=3, start=4)
    assert [step for step in range(1, 13) if config.due(step)] == [6, 9, 12]
    assert [step for step in range(1, 13) if RankConfig(every=3, end=9).due(step)] == [3, 6, 9]
    assert not any(RankConfig(weight=0.0, every=1).due(step) for step in range(5))


@pytest.mark.parametrize(("name", "value"), [("step", 0.0), ("weight", -1.0), ("every", 0)])
def test_values_that_cannot_work_are_refused(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"{name} = {value}"):
        RankConfig.parse({name: value}, where="rank")
