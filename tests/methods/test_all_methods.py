"""What holds for every registered method, on a perceptron and on a small convolutional network with batch norm."""

from __future__ import annotations

import copy

import pytest
import torch

from residapt.methods import MethodConfig, build_method, describe_methods, method_names
from residapt.train import TrainConfig
from residapt.train.optimiser import build_optimizer

NAMES = method_names()
SPECIFIED = {
    *("source_only", "target_only", "fine_tune", "pooled", "confusion", "mmd", "mk_mmd", "coral", "dann", "dann_flip"),
    *("adda", "two_stream", "dsn", "rman", "cdan", "cdan_e", "rpt_fixed", "rpt", "source_free", "shot"),
    *("norm_statistics", "norm_affine", "bias_only", "last_layer", "separate", "lora", "dora"),
}


@pytest.fixture(params=["mlp", "lenet"])
def case(request, make_mlp, make_lenet, make_mlp_batch, make_image_batch):
    if request.param == "mlp":
        if request.node.callspec.params["name"] == "norm_affine":
            pytest.skip("the perceptron has no normalisation layer")
        return make_mlp, make_mlp_batch(few=True)
    return make_lenet, make_image_batch(few=True)


def trained(name, make, batch, steps=3):
    method = build_method(name, make(), example=batch.source).train()
    optimizer = build_optimizer(method.groups(), TrainConfig())
    for step in range(steps):
        optimizer.zero_grad()
        losses = method.losses(batch, (step + 1) / steps)
        losses.total.backward()
        optimizer.step()
        method.after_step(step + 1, optimizer)
    return method, losses


def test_every_name_is_there_and_described():
    assert set(NAMES) == SPECIFIED
    assert all(len(line) > 20 for _, line in describe_methods())


@pytest.mark.parametrize("name", NAMES)
def test_training_runs_and_changes_every_group(name, case):
    make, batch = case
    fresh = build_method(name, make(), example=batch.source)
    method, losses = trained(name, make, batch)
    assert method.name == name
    assert torch.isfinite(losses.total)
    assert set(method.groups()) == {"network", "transform", "adversary"}
    for group, parameters in method.groups().items():
        before = fresh.groups()[group]
        moved = [not torch.equal(a, b) for a, b in zip(before, parameters, strict=True)]
        assert not parameters or any(moved), group


@pytest.mark.parametrize("name", NAMES)
def test_groups_hold_every_trainable_parameter_once(name, case):
    make, batch = case
    method = build_method(name, make(), example=batch.source)
    grouped = [id(p) for group in method.groups().values() for p in group]
    assert len(grouped) == len(set(grouped))
    assert {id(p) for p in method.parameters() if p.requires_grad} <= set(grouped)


@pytest.mark.parametrize("name", NAMES)
def test_the_plain_target_model_predicts_what_the_target_stream_does(name, case):
    make, batch = case
    method, _ = trained(name, make, batch)
    method.eval()
    plain = method.target_model().eval()
    with torch.no_grad():
        assert torch.allclose(plain(batch.target), method.predict(batch.target, "target"), atol=1e-5)
    assert type(plain) is type(make())
    assert set(plain.state_dict()) == set(make().state_dict())


@pytest.mark.parametrize("name", NAMES)
def test_state_round_trip(name, case):
    make, batch = case
    method, _ = trained(name, make, batch)
    other = build_method(name, make(7), example=batch.source)
    other.load_state_dict(copy.deepcopy(method.state_dict()))
    method.eval(), other.eval()
    with torch.no_grad():
        for stream in ("source", "target"):
            assert torch.equal(method.predict(batch.target, stream), other.predict(batch.target, stream))
    losses = [m.losses(batch, 0.5).total for m in (method, other)]
    assert torch.equal(*losses)


@pytest.mark.parametrize("name", NAMES)
def test_predictions_do_not_depend_on_the_batch_in_evaluation(name, case):
    make, batch = case
    method, _ = trained(name, make, batch)
    method.eval()
    with torch.no_grad():
        whole = method.predict(batch.target)
        single = torch.cat([method.predict(x[None]) for x in batch.target])
    assert torch.allclose(whole, single, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_building_leaves_the_networks_numbers_alone(name, case):
    make, batch = case
    model = make().train()
    before = copy.deepcopy(model.state_dict())
    method = build_method(name, model, MethodConfig(), example=batch.source)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert model.training
    assert method.streams.model is model
