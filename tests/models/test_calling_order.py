"""A network whose layers are registered in another order than they are called: every part finds the same head."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from residapt.methods import DiscrepancyConfig, MethodConfig, build_method
from residapt.methods.discrepancy.layers import classifier_input
from residapt.models import find_head, with_bottleneck
from residapt.models.heads import head_names, new_layers
from residapt.storage.adapter import load, save_pretrained
from residapt.storage.metadata import AdapterMetadata
from residapt.streams import TwoStream
from residapt.train import TrainConfig, Trainer
from residapt.train.optimiser import HEAD
from residapt.transform import TransformConfig
from residapt.transform.calls import record_calls

X = torch.randn(4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


class HeadFirst(nn.Module):
    """Registers its classifier first and calls it last; ``gate`` is registered last and called first."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.classifier = nn.Linear(5, 3)
        self.features = nn.Linear(8, 5)
        self.body = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.BatchNorm1d(8))
        self.gate = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(torch.tanh(self.features(self.body(x * self.gate(x)))))


def network() -> HeadFirst:
    return HeadFirst().double()


def test_the_pass_tells_when_modules_are_called_and_changes_nothing() -> None:
    model = network()
    model.body.eval()
    model.gate.train()
    before, modes = model.state_dict(), [module.training for module in model.modules()]
    state = torch.get_rng_state()
    calls = record_calls(model, X)
    order = sorted((name for name in calls.last if "." not in name and name), key=lambda name: calls.last[name])
    assert order == ["gate", "body", "features", "classifier"]
    assert torch.equal(state, torch.get_rng_state())
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_by_registration_alone_the_head_would_be_another_layer() -> None:
    """The counterpart: without an example there is nothing to tell them apart by."""
    assert find_head(network()) == "gate"


def test_heads_features_rates_and_transforms_agree_on_one_head() -> None:
    model = network()
    assert find_head(model, X) == "classifier"
    assert head_names(model, X) == new_layers(model, X) == ("classifier",)
    assert classifier_input(TwoStream(model, include=()), X) == "classifier:input"
    assert set(TwoStream(model, features="features", example=X).layers) == {"gate", "body.0", "features"}


def test_a_method_finds_them_too(pairs) -> None:  # type: ignore[no-untyped-def]
    model = network()
    config = MethodConfig(
        transform=TransformConfig(features="features", left_rank=2, right_rank=2),
        discrepancy=DiscrepancyConfig(layer="penultimate", hidden=(4,)),
    )
    method = build_method("rpt", model, config, example=X).double()
    assert method.discrepancy.layer == "classifier:input"
    assert set(method.streams.layers) == {"gate", "body.0", "features"}
    trainer = Trainer(method, pairs((6,)), TrainConfig(steps=1, batch_size=4, head=5.0))
    (head,) = [group for group in trainer.optimizer.param_groups if group["name"] == HEAD]
    assert {id(p) for p in head["params"]} == {id(p) for p in model.classifier.parameters()}


def test_a_bottleneck_comes_before_the_layer_that_is_called_last() -> None:
    model = with_bottleneck(network().float(), num_classes=3, width=4, example=X.float())
    assert find_head(model, X.float()) == "classifier.classifier"
    assert new_layers(model, X.float()) == ("classifier",)
    assert isinstance(model.gate, nn.Linear)


def test_an_adapter_is_loaded_with_the_same_layers_without_an_example(tmp_path: Path) -> None:
    streams = TwoStream(network(), features="features", example=X, left_rank=2, right_rank=2, bias="separate").eval()
    metadata = AdapterMetadata(method="rpt", classes=("a", "b", "c"))
    save_pretrained(streams, tmp_path / "adapter", metadata=metadata)
    again = load(network(), tmp_path / "adapter").eval()
    assert list(again.layers) == list(streams.layers)
    torch.testing.assert_close(again(X, stream="target"), streams(X, stream="target"))


@pytest.mark.parametrize("features", ["0", "2", "4"])
def test_where_registration_says_the_same_the_settings_stay_as_they_are(features: str) -> None:
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)).double()
    streams = TwoStream(model, features=features, example=X)
    assert streams.config.include == ("*",)
    assert list(streams.layers) == list(TwoStream(model, features=features).layers)


def test_attention_inside_a_block_counts_as_called_with_it() -> None:
    """Its projections are parameters that no module of their own is called with."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(6, 3)
            self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
            self.first = nn.Linear(6, 6)

        def forward(self, x: Tensor) -> Tensor:
            x = self.first(x)[:, None]
            return self.head(self.attention(x, x, x)[0][:, 0])

    names = {f"attention.{name}" for name in ("in_proj.q", "in_proj.k", "in_proj.v", "out_proj")}
    streams = TwoStream(Net().double(), features="attention", example=X)
    assert set(streams.layers) == {"first", *names}
