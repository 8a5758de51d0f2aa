from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from residapt.methods import MethodConfig, build_method
from residapt.rank import GroupedCore, RankConfig, group_weights, rank_penalty


def slow_penalty(core: list[list[float]], column_weight: float, row_weight: float) -> float:
    columns = sum(math.sqrt(sum(line[c] ** 2 for line in core)) for c in range(len(core[0])))
    rows = sum(math.sqrt(sum(value**2 for value in line)) for line in core)
    return column_weight * columns + row_weight * rows


def test_group_weights_as_printed_and_by_group_size() -> None:
    item = GroupedCore(torch.zeros(3, 4), outputs=25, inputs=16)
    assert group_weights("layer", item) == (4.0, 5.0)
    assert group_weights("group", item) == (math.sqrt(3), 2.0)


@pytest.mark.parametrize("kind", ["layer", "group"])
def test_penalty_is_the_weighted_sum_of_group_norms(kind: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    items = [
        GroupedCore(torch.randn(shape, generator=generator, dtype=torch.float64), outputs, inputs)
        for shape, outputs, inputs in [((3, 4), 25, 16), ((2, 1), 7, 9)]
    ]
    expected = sum(slow_penalty(item.core.tolist(), *group_weights(kind, item)) for item in items)
    assert float(rank_penalty(items, kind)) == pytest.approx(expected)


def test_penalty_of_nothing_is_zero() -> None:
    assert float(rank_penalty([], "layer")) == 0.0


def test_a_zero_group_has_a_finite_gradient() -> None:
    core = torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)
    rank_penalty([GroupedCore(core, 3, 4)], "layer").backward()
    assert core.grad is not None
    assert bool(torch.isfinite(core.grad).all())


def test_back_propagated_penalty_covers_weights_and_biases(nets: Callable[..., Any], pairs: Callable[..., Any]) -> None:
    """The ablation of Eq. 11 punishes the same T = [T_w T_b] as the proximal step does."""
    from residapt.data.batches import Batches

    model, x = nets("mlp")
    config = MethodConfig(penalty="gradient", rank=RankConfig(weight=0.5))
    method = build_method("rpt", model, config, example=x).double()
    batch = Batches(pairs((6,)), size=4, seed=0).batch(0)
    expected = 0.0
    for name in method.streams.layers:
        transform, (weight, bias) = method.streams.transform(name), method.streams.source_tensors(name)
        core = torch.cat([transform.core(weight), transform.bias_core(bias)], 1)
        expected += slow_penalty(core.tolist(), transform.inputs**0.5, transform.outputs**0.5)
    assert method.losses(batch, 1.0).parts["rank"].item() == pytest.approx(expected)
