"""What keeps adversarial training in bounds: one scale for the classifier's input, an end to the pull."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from residapt.losses.adversarial import unit_scale
from residapt.methods.discrepancy.base import Adversarial
from residapt.streams import Outputs
from residapt.train import GroupConfig, TrainConfig
from residapt.train.optimiser import build_optimizer, set_learning_rates


def outputs(scale: float, seed: int, requires_grad: bool = True) -> Outputs:
    logits = scale * torch.randn(6, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    logits.requires_grad_(requires_grad)
    return Outputs(logits, logits, {})


def adversary(confusion: Any = "reversal", **settings: Any) -> Adversarial:
    return Adversarial(3, confusion=confusion, hidden=(8,), dropout=0.0, seed=0, **settings).double()


@given(factor=st.floats(1e-3, 1e3), seed=st.integers(0, 1000))
def test_the_scale_of_both_domains_together_is_one_and_their_ratio_is_kept(factor: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    source = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    target = 3 * torch.randn(7, 4, generator=generator, dtype=torch.float64)
    one, other = unit_scale(source, target), unit_scale(factor * source, factor * target)
    assert float(torch.cat(one).square().mean()) == pytest.approx(1.0, rel=1e-5)
    for mine, theirs in zip(one, other, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-8)
    torch.testing.assert_close(one[0] * target[0, 0], one[1][0, 0] * source, rtol=1e-6, atol=1e-9)


def test_the_scale_is_a_constant_for_the_gradient() -> None:
    source = torch.tensor([[3.0, 4.0]], dtype=torch.float64, requires_grad=True)
    unit_scale(source, source.detach())[0].sum().backward()
    assert source.grad is not None
    assert source.grad[0].tolist() == pytest.approx([1 / math.sqrt(12.5)] * 2)


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_a_classifier_of_normalised_features_sees_no_growth(scale: float) -> None:
    found = adversary(normalise=True)(outputs(scale, 0), outputs(scale, 1))
    expected = adversary(normalise=True)(outputs(1.0, 0), outputs(1.0, 1))
    assert found.own is not None
    assert float(found.own) == pytest.approx(float(expected.own), rel=1e-5)
    grown = adversary()(outputs(scale, 0), outputs(scale, 1))
    assert scale == 1.0 or float(grown.own) != pytest.approx(float(adversary()(outputs(1.0, 0), outputs(1.0, 1)).own))


def test_rates_rise_over_the_warmup_and_stay_then() -> None:
    parameter = nn.Parameter(torch.zeros(1))
    config = TrainConfig(warmup=0.2, network=GroupConfig(lr=0.01))
    optimizer = build_optimizer({"network": [parameter]}, config)
    found = []
    for progress in (0.0, 0.05, 0.1, 0.2, 0.5, 1.0):
        set_learning_rates(optimizer, config, progress)
        found.append(optimizer.param_groups[0]["lr"])
    assert found == pytest.approx([0.0, 0.0025, 0.005, 0.01, 0.01, 0.01])
