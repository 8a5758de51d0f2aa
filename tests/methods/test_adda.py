"""ADDA: the source network is a constant, the target network gets half the flipped loss."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from residapt.methods import DiscrepancyConfig, MethodConfig, build_method
from residapt.train import TrainConfig
from residapt.train.optimiser import build_optimizer

CONFIG = MethodConfig(discrepancy=DiscrepancyConfig(hidden=(7,), gamma=0.0))


def test_losses_are_the_mapping_loss_and_the_domain_classifiers(make_mlp, make_mlp_batch):
    batch = make_mlp_batch()
    method = build_method("adda", make_mlp(), CONFIG, example=batch.source)
    for parameter in method.streams.target_parameters.parameters():
        nn.init.normal_(parameter, std=0.3)
    classifier = method.adversary.classifier
    z_s = [float(z) for z in classifier(method.predict(batch.source, "source"))]
    z_t = [float(z) for z in classifier(method.predict(batch.target, "target"))]

    def minus_log_source(z: float) -> float:
        return math.log(1 + math.exp(-z))

    mapping = 0.5 * sum(map(minus_log_source, z_t)) / 6
    own = (sum(map(minus_log_source, z_s)) + sum(minus_log_source(-z) for z in z_t)) / 12
    losses = method.losses(batch, 0.5)
    assert float(losses.parts["confusion"]) == pytest.approx(mapping, rel=1e-10)
    assert float(losses.parts["domain"]) == pytest.approx(own, rel=1e-10)
    assert float(losses.total) == pytest.approx(mapping + own, rel=1e-10)
    assert set(losses.parts) == {"confusion", "domain"}


def test_gradients_reach_the_target_network_and_the_classifier_but_not_the_source(make_mlp, make_mlp_batch):
    batch, model = make_mlp_batch(), make_mlp()
    method = build_method("adda", model, CONFIG, example=batch.source)
    losses = method.losses(batch, 0.5)
    losses.parts["confusion"].backward(retain_graph=True)
    assert all(p.grad is None for p in model.parameters())
    assert all(p.grad is not None and p.grad.any() for p in method.streams.target_parameters.parameters())
    assert all(p.grad is None for p in method.adversary.parameters())
    method.zero_grad()
    losses.parts["domain"].backward()
    assert all(p.grad is None for p in method.streams.target_parameters.parameters())
    assert all(p.grad is not None for p in method.adversary.parameters())


def test_training_leaves_the_source_as_it_was(make_lenet, make_image_batch):
    batch, model = make_image_batch(), make_lenet()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    method = build_method("adda", model, CONFIG, example=batch.source).train()
    optimizer = build_optimizer(method.groups(), TrainConfig())
    for _ in range(3):
        optimizer.zero_grad()
        method.losses(batch, 0.5).total.backward()
        optimizer.step()
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    target = method.target_model().state_dict()
    assert all(not torch.equal(before[name], target[name]) for name in before if name.endswith("weight"))
    assert not torch.equal(before["norm1.running_mean"], target["norm1.running_mean"])


def test_the_source_pass_is_a_fixed_function_and_modes_are_restored(make_lenet, make_image_batch):
    batch = make_image_batch()
    config = CONFIG.model_copy(update={"transform": CONFIG.transform.model_copy(update={"norm": "frozen"})})
    method = build_method("adda", make_lenet(), config, example=batch.source).train()
    seen = []
    method.streams.model.drop1.register_forward_hook(lambda module, *_: seen.append(module.training))
    method.losses(batch, 0.5)
    assert seen == [False, True]
    assert method.streams.model.drop1.training
    assert not method.streams.model.norm1.training  # the frozen policy survives


def test_few_labels_train_the_target_network(make_mlp, make_mlp_batch):
    batch = make_mlp_batch(few=True)
    method = build_method("adda", make_mlp(), CONFIG, example=batch.source)
    losses = method.losses(batch, 0.5)
    expected = nn.functional.cross_entropy(method.predict(batch.few), batch.few_labels)
    assert float(losses.parts["target_class"]) == pytest.approx(float(expected), rel=1e-12)
    assert float(losses.total) == pytest.approx(sum(float(p) for p in losses.parts.values()), rel=1e-12)


def test_groups_hold_the_target_network_only(make_mlp, make_mlp_batch):
    model = make_mlp()
    method = build_method("adda", model, CONFIG, example=make_mlp_batch().source)
    groups = method.groups()
    count = sum(p.numel() for p in model.parameters())
    assert sum(p.numel() for p in groups["network"]) == count
    assert not {id(p) for p in groups["network"]} & {id(p) for p in model.parameters()}
    assert groups["transform"] == []
    assert sum(p.numel() for p in groups["adversary"]) == 3 * 7 + 7 + 7 + 1
