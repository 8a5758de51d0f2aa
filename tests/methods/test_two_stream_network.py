"""The two-stream network: its regulariser by hand, which layers are separate, which are not."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from residapt.errors import ModelError
from residapt.methods import DiscrepancyConfig, MethodConfig, TwoStreamConfig, build_method
from residapt.methods.separate import SeparateStreams, parameter_owners
from residapt.transform import TransformConfig


def build(model, batch, *, weight=1.0, layers=("*",), regulariser="exponential", **discrepancy):
    config = MethodConfig(
        discrepancy=DiscrepancyConfig(gamma=0.0, **discrepancy),
        two_stream=TwoStreamConfig(weight=weight, layers=layers, regulariser=regulariser),
    )
    return build_method("two_stream", model, config, example=batch.source)


@torch.no_grad()
def scatter(method) -> None:
    """Give both streams weights, and every layer an a and a b, that differ."""
    g = torch.Generator().manual_seed(5)
    for parameter in method.streams.target_parameters.parameters():
        parameter.add_(0.05 * torch.randn(parameter.shape, generator=g, dtype=parameter.dtype))
    method.a.copy_(1 + 0.1 * torch.randn(method.a.shape, generator=g, dtype=method.a.dtype))
    method.b.copy_(0.02 * torch.randn(method.b.shape, generator=g, dtype=method.b.dtype))


def slow_distance(model, target, names, a, b) -> float:
    total = 0.0
    for name in names:
        pairs = zip(model.get_parameter(name).flatten(), target[name].flatten(), strict=True)
        total += sum((a * float(s) + b - float(t)) ** 2 for s, t in pairs)
    return total


@pytest.mark.parametrize("regulariser", ["exponential", "l2"])
def test_regulariser_sums_over_layers_weights_and_biases_together(make_mlp, make_mlp_batch, regulariser):
    model = make_mlp()
    method = build(model, make_mlp_batch(), regulariser=regulariser, layers=("one", "head"))
    scatter(method)
    layers = {"head": ("head.weight", "head.bias"), "one": ("one.weight", "one.bias")}
    assert method.streams.separate_layers == layers
    target = method.streams.target_state()
    expected = 0.0
    for j, names in enumerate(layers.values()):
        distance = slow_distance(model, target, names, float(method.a[j]), float(method.b[j]))
        expected += math.exp(distance) - 1 if regulariser == "exponential" else distance
    assert float(method.regulariser()) == pytest.approx(expected, rel=1e-10)


def test_total_is_class_plus_mmd_plus_weighted_regulariser(make_mlp, make_mlp_batch):
    batch = make_mlp_batch(few=True)
    method = build(make_mlp(), batch, weight=0.3)
    scatter(method)
    losses = method.losses(batch, 0.2)
    source = method.streams.outputs(batch.source, inner=method.inner)
    target = method.streams.outputs(batch.target, stream="target", inner=method.inner)
    expected = {
        "class": nn.functional.cross_entropy(source.logits, batch.labels),
        "target_class": nn.functional.cross_entropy(method.predict(batch.few), batch.few_labels),
        "confusion": method.discrepancy(source, target).network,
        "weights": method.regulariser(),
    }
    assert set(losses.parts) == set(expected)
    for name, value in expected.items():
        assert float(losses.parts[name]) == pytest.approx(float(value), rel=1e-12), name
    total = sum((0.3 if name == "weights" else 1.0) * float(value) for name, value in expected.items())
    assert float(losses.total) == pytest.approx(total, rel=1e-12)


def test_both_streams_start_equal_and_the_regulariser_at_zero(make_mlp, make_mlp_batch):
    batch = make_mlp_batch()
    method = build(make_mlp(), batch)
    assert float(method.regulariser()) == 0.0
    assert torch.equal(method.predict(batch.source, "source"), method.predict(batch.source, "target"))


def test_gradients_reach_both_streams_and_the_relation(make_mlp, make_mlp_batch):
    batch, model = make_mlp_batch(), make_mlp()
    method = build(model, batch, layers=("one",))
    scatter(method)
    method.losses(batch, 1.0).total.backward()
    trained = [*model.parameters(), *method.streams.target_parameters.parameters(), method.a, method.b]
    assert all(p.grad is not None and p.grad.any() for p in trained)


def test_shared_layers_are_the_same_in_both_streams(make_mlp, make_mlp_batch):
    batch, model = make_mlp_batch(), make_mlp()
    method = build(model, batch, layers=("one",))
    assert set(method.streams.target_state()) == {"one.weight", "one.bias"}
    with torch.no_grad():
        model.head.bias += 1.0
    assert torch.allclose(method.predict(batch.source, "source"), method.predict(batch.source, "target"))
    with torch.no_grad():
        model.one.bias += 1.0
    assert not torch.allclose(method.predict(batch.source, "source"), method.predict(batch.source, "target"))


def test_without_separate_layers_it_is_one_network(make_mlp, make_mlp_batch):
    batch = make_mlp_batch()
    method = build(make_mlp(), batch, layers=())
    losses = method.losses(batch, 1.0)
    assert set(losses.parts) == {"class", "confusion"}
    losses.total.backward()
    assert method.a.numel() == 0


def test_a_pattern_without_layer_is_refused(make_mlp, make_mlp_batch):
    with pytest.raises(ModelError, match=r"'oen'.*\b3\b.*\bone\b"):
        build(make_mlp(), make_mlp_batch(), layers=("oen",))


def test_frozen_source_variant_trains_the_target_only(make_mlp, make_mlp_batch):
    batch, model = make_mlp_batch(), make_mlp()
    config = MethodConfig(train_source=False)
    method = build_method("two_stream", model, config, example=batch.source)
    method.losses(batch, 1.0).total.backward()
    assert all(p.grad is None for p in model.parameters())
    assert all(p.grad is not None for p in method.streams.target_parameters.parameters())


@pytest.mark.parametrize("kind", ["reversal", "mmd"])
def test_the_papers_variants_with_other_discrepancies(make_mlp, make_mlp_batch, kind):
    batch = make_mlp_batch()
    method = build(make_mlp(), batch, kind=kind)
    assert (kind == "reversal") == ("domain" in method.losses(batch, 0.5).parts)


def test_owners_list_every_parameter_once_with_tied_weights(make_lenet):
    assert list(parameter_owners(make_lenet())) == ["conv1", "norm1", "full2", "full3"]
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    model[2].weight = model[0].weight
    owners = parameter_owners(model)
    assert owners == {"0": ("0.weight", "0.bias"), "2": ("2.bias",)}
    streams = SeparateStreams(model, TransformConfig())
    x = torch.randn(3, 4)
    with torch.no_grad():
        streams.target_parameter("0.weight").mul_(2)
        expected = torch.tanh(x @ (2 * model[0].weight).T + model[0].bias) @ (2 * model[0].weight).T + model[2].bias
        assert torch.allclose(streams(x, stream="target"), expected, atol=1e-6)
    assert list(parameter_owners(nn.Linear(2, 2))) == ["model"]


def test_statistics_follow_the_policy(make_lenet, make_image_batch):
    batch = make_image_batch()
    for policy, moved in (("per-domain", False), ("shared", True), ("frozen", False)):
        config = MethodConfig(transform=TransformConfig(norm=policy))
        method = build_method("two_stream", make_lenet(), config, example=batch.source).train()
        before = method.streams.model.norm1.running_mean.clone()
        method.streams.outputs(batch.target, stream="target")
        assert torch.equal(before, method.streams.model.norm1.running_mean) is not moved, policy
        changed = not torch.equal(before, method.target_model().norm1.running_mean)
        assert changed is (policy != "frozen"), policy
