"""Methods with one network: the whole loss, from its definition."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from residapt.methods import DiscrepancyConfig, MethodConfig, build_method
from residapt.methods.shared import SHARED as ROWS
from residapt.methods.shared import SharedAlignment

SHARED = tuple(row.name for row in ROWS)


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("few", [False, True])
def test_loss_is_class_plus_ramped_discrepancy_plus_the_classifiers_own(make_mlp, make_mlp_batch, name, few):
    batch, p = make_mlp_batch(few), 0.3
    config = MethodConfig(discrepancy=DiscrepancyConfig(weight=0.7, gamma=4.0, hidden=(7,)))
    method = build_method(name, make_mlp(), config, example=batch.source)
    assert isinstance(method, SharedAlignment)
    inner = method.inner
    source = method.streams.outputs(batch.source, inner=inner)
    target = method.streams.outputs(batch.target, stream="target", inner=inner)
    found = method.discrepancy(source, target)
    expected = functional.cross_entropy(source.logits, batch.labels)
    expected = expected + 0.7 * (2 / (1 + math.exp(-4.0 * p)) - 1) * found.network
    if found.own is not None:
        expected = expected + found.own
    if few:
        expected = expected + functional.cross_entropy(method.streams(batch.few), batch.few_labels)
    assert float(method.losses(batch, p).total) == pytest.approx(float(expected), rel=1e-12)
    assert not method.streams.transforms


@pytest.mark.parametrize("name", SHARED)
def test_a_full_ramp_moves_every_layer_below_the_features(make_mlp, make_mlp_batch, name):
    model, batch = make_mlp(), make_mlp_batch()
    method = build_method(name, model, example=batch.source)
    gradients = torch.autograd.grad(method.losses(batch, 1.0).parts["confusion"], [model.one.weight])
    assert gradients[0].abs().sum() > 0


def test_the_discrepancy_has_no_weight_at_the_very_start(make_mlp, make_mlp_batch):
    batch = make_mlp_batch()
    method = build_method("coral", make_mlp(), example=batch.source)
    losses = method.losses(batch, 0.0)
    assert float(losses.total) == float(losses.parts["class"])
    assert float(losses.parts["confusion"]) > 0
