"""One matrix for all methods: what must hold for each of them, on each kind of layer.

The list of methods comes from the registry, so a new one is in the matrix from the moment it is registered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from residapt.data.batches import Batch, Batches
from residapt.data.domains import DomainPair
from residapt.methods import DiscrepancyConfig, MethodConfig, build_method, method_names
from residapt.rank import prune_transform
from residapt.train import Callback, GroupConfig, Method, TrainConfig, Trainer
from residapt.transform import ResidualTransform, TransformConfig

KINDS = ["linear", "conv1d", "conv2d", "conv3d", "conv_transpose2d", "grouped", "attention"]
OWN_PARAMETERS = ("norm_statistics", "bias_only", "last_layer", "separate", "shot", "lora", "dora")
"""Methods without transforms, to which the kind of layer makes no difference."""
NEEDS_NORM = "norm_affine"
every_case = pytest.mark.parametrize(
    ("name", "kind"),
    [
        (name, kind)
        for name in method_names()
        for kind in (KINDS if name not in OWN_PARAMETERS else ["conv2d"])
        if name != NEEDS_NORM
    ],
)


class Case:
    """A method around a small network with one layer of the wanted kind, and data for it."""

    def __init__(self, name: str, net: Any, pair: DomainPair, *, rank: int = 4) -> None:
        self.model, self.x, self.pair = net.model, net.x, pair
        config = MethodConfig(
            transform=TransformConfig(left_rank=rank, right_rank=rank), discrepancy=DiscrepancyConfig(hidden=(6,))
        )
        self.method: Method = build_method(name, self.model, config, example=self.x).double()

    def batch(self) -> Batch:
        return Batches(self.pair, size=6, seed=0).batch(0)

    def train(self, steps: int, callback: Callable[[Trainer], Callback] | None = None) -> Trainer:
        rates = GroupConfig(lr=1e-2)
        config = TrainConfig(steps=steps, batch_size=6, network=rates, transform=rates, adversary=rates)
        trainer = Trainer(self.method, self.pair, config)
        if callback is not None:
            trainer.callbacks.items.append(callback(trainer))
        trainer.run()
        return trainer


@pytest.fixture
def case(layer_nets: Callable[..., Any], pairs: Callable[..., Any]) -> Callable[..., Case]:
    def make(name: str, kind: str, *, rank: int = 4, seed: int = 0) -> Case:
        net = layer_nets(kind, seed=seed)
        # A few labelled target images are there for the methods that need or use them.
        return Case(name, net, pairs(tuple(net.x.shape[1:]), size=12, few=6), rank=rank)

    return make


def trained_parameters(method: Method) -> dict[str, nn.Parameter]:
    listed = {id(p) for group in method.groups().values() for p in group if p.requires_grad}
    return {name: p for name, p in method.named_parameters() if id(p) in listed}


@every_case
def test_identity_at_rank_zero(case: Callable[..., Case], name: str, kind: str) -> None:
    made = case(name, kind, rank=0)
    method = made.method.eval()
    before = made.model(made.x)
    assert torch.equal(method.predict(made.x, "source"), before)
    torch.testing.assert_close(method.predict(made.x, "target"), before)
    losses = method.train().losses(made.batch(), 0.5)
    assert bool(torch.isfinite(losses.total))
    assert "stream" not in losses.parts


@every_case
def test_merged_equals_live(case: Callable[..., Case], name: str, kind: str) -> None:
    made = case(name, kind)
    made.train(2)
    method = made.method.eval()
    merged = method.target_model().eval()
    torch.testing.assert_close(merged(made.x), method.predict(made.x, "target"))
    assert [type(module) for module in merged.modules()] == [type(module) for module in made.model.modules()]
    assert list(merged.state_dict()) == list(made.model.state_dict())


@every_case
def test_gradients_reach_every_trained_parameter(case: Callable[..., Case], name: str, kind: str) -> None:
    made = case(name, kind)
    generator = torch.Generator().manual_seed(0)
    trained = trained_parameters(made.method)
    assert trained
    with torch.no_grad():
        # Away from the start, where terms such as the distance of two equal networks have slope zero.
        for parameter in trained.values():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    made.method.losses(made.batch(), 1.0).total.backward()
    for key, parameter in trained.items():
        assert parameter.grad is not None, key
        assert bool(torch.isfinite(parameter.grad).all()), key
        assert bool(parameter.grad.any()), key
    others = [key for key, p in made.method.named_parameters() if key not in trained and p.grad is not None]
    assert others == [], "what is not trained gets no gradient either"


class PruneHalf(Callback):
    """After the second step, keep every other row and column of every T; remember all parameters after the third."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.after: dict[str, Tensor] = {}

    def on_step(self, method: Method, step: int) -> None:
        if step == 2:
            for transform in method.streams.transforms.values():
                assert isinstance(transform, ResidualTransform)
                rows, columns = (torch.arange(size) % 2 == 0 for size in transform.ranks)
                bias = torch.ones(transform.bias_rank, dtype=torch.bool) if transform.has_bias else None
                prune_transform(transform, rows, columns, bias, self.trainer.optimizer)
        if step == 3:
            self.after = {key: p.detach().clone() for key, p in trained_parameters(method).items()}


@every_case
def test_training_goes_on_after_pruning(case: Callable[..., Case], name: str, kind: str) -> None:
    made = case(name, kind)
    made_callbacks: list[PruneHalf] = []

    def callback(trainer: Trainer) -> Callback:
        made_callbacks.append(PruneHalf(trainer))
        return made_callbacks[0]

    trainer = made.train(4, callback)
    after = made_callbacks[0].after
    assert set(made.method.streams.ranks().values()) <= {(2, 2)}
    assert {id(p) for group in trainer.optimizer.param_groups for p in group["params"]} == {
        id(p) for p in trained_parameters(made.method).values()
    }
    for key, parameter in trained_parameters(made.method).items():
        assert not torch.equal(parameter, after[key]), f"{key} has stopped learning"
        assert bool(torch.isfinite(parameter).all()), key


@every_case
def test_state_dict_round_trip(case: Callable[..., Case], name: str, kind: str) -> None:
    """Everything that decides predictions and the next loss is saved: transforms, statistics, adversary."""
    made, other = case(name, kind), case(name, kind, seed=1)
    made.train(2)
    other.method.load_state_dict(made.method.state_dict())
    made.method.eval()
    other.method.eval()
    for stream in ("source", "target"):
        torch.testing.assert_close(other.method.predict(made.x, stream), made.method.predict(made.x, stream))
    losses = [which.method.train().losses(made.batch(), 1.0).total for which in (made, other)]
    torch.testing.assert_close(losses[0], losses[1])
