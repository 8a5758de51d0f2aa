"""A few labelled target images in every method: the loss joins, with its weight, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from residapt.methods import MethodConfig, build_method
from support.methods import FOR_ANY_NETWORK

LEARN = [name for name in FOR_ANY_NETWORK if name not in ("source_only", "target_only", "fine_tune", "pooled")]


def without(batch):
    return replace(batch, few=None, few_labels=None)


def build(name, make_mlp, batch, **settings):
    return build_method(name, make_mlp(), MethodConfig(**settings), example=batch.source).train()


@pytest.mark.parametrize("name", LEARN)
@pytest.mark.parametrize("weight", [1.0, 0.25])
def test_the_target_classification_loss_joins(name, weight, make_mlp, make_mlp_batch):
    batch = make_mlp_batch(few=True)
    method = build(name, make_mlp, batch, few_weight=weight)
    with_few, plain = method.losses(batch, 0.5), method.losses(without(batch), 0.5)
    expected = functional.cross_entropy(method.predict(batch.few, "target"), batch.few_labels)
    assert float(with_few.parts["target_class"]) == pytest.approx(float(expected))
    assert float(with_few.total) == pytest.approx(float(plain.total) + weight * float(expected))
    assert set(with_few.parts) - set(plain.parts) == {"target_class"}


@pytest.mark.parametrize("name", LEARN)
def test_weight_zero_is_shown_but_not_learned_from(name, make_mlp, make_mlp_batch):
    batch = make_mlp_batch(few=True)
    gradients = []
    for given in (batch, without(batch)):
        method = build(name, make_mlp, batch, few_weight=0.0)
        losses = method.losses(given, 0.5)
        losses.total.backward()
        gradients.append([p.grad for p in method.parameters() if p.grad is not None])
        assert ("target_class" in losses.parts) == (given is batch)
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_dsn_learns_from_them_before_its_other_losses_begin(make_mlp, make_mlp_batch):
    batch = make_mlp_batch(few=True)
    method = build("dsn", make_mlp, batch, few_weight=0.5, dsn={"start_share": 0.5})
    losses = method.losses(batch, 0.1)
    assert set(losses.parts) == {"class", "target_class"}
    assert float(losses.total) == pytest.approx(float(losses.parts["class"] + 0.5 * losses.parts["target_class"]))


@pytest.mark.parametrize("weight", [0.0, 1.0, 3.0])
def test_pooled_is_one_loss_over_both_sets(weight, make_mlp, make_mlp_batch):
    """Against a plain loop: every labelled target image counts as ``few_weight`` source images."""
    batch = make_mlp_batch(few=True)
    method = build("pooled", make_mlp, batch, few_weight=weight)
    losses = method.losses(batch, 0.5)
    total, count = 0.0, 0.0
    for x, y, w in [
        *((x, y, 1.0) for x, y in zip(batch.source, batch.labels, strict=True)),
        *((x, y, weight) for x, y in zip(batch.few, batch.few_labels, strict=True)),
    ]:
        total += w * -float(method.streams.model(x[None]).log_softmax(1)[0, int(y)])
        count += w
    assert float(losses.total) == pytest.approx(total / count, rel=1e-12)
    assert set(losses.parts) == {"class"}


def test_pooled_has_one_network_for_both_domains(make_lenet, make_image_batch):
    batch = make_image_batch(few=True)
    method = build_method("pooled", make_lenet(), example=batch.source).train()
    method.losses(batch, 0.5).total.backward()
    method.eval()
    with torch.no_grad():
        assert torch.equal(method.predict(batch.target, "source"), method.predict(batch.target, "target"))
        assert torch.equal(method.predict(batch.target), method.target_model().eval()(batch.target))
