"""``freeze = "base"``: the network stays as it is, bit for bit, and all that is learned is in the adapter."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import residapt
from residapt.data.batches import Batch
from residapt.errors import ConfigError, ModelError
from residapt.methods import MethodConfig, build_method
from residapt.storage import base_hashes, read_config
from residapt.streams import TwoStream
from residapt.transform import TransformConfig

QUICK: dict[str, Any] = {
    "steps": 4,
    "verbose": False,
    "train_source_first": False,
    "freeze": "base",
    "device": "cpu",
    "train": {"batch_size": 8, "network": {"lr": 0.05}, "transform": {"lr": 0.05}},
    "force": True,
}


def network(seed: int = 0) -> nn.Sequential:
    """Batch norm and dropout, so that modes matter."""
    torch.manual_seed(seed)
    parts = [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(4 * 36, 3)]
    return nn.Sequential(*parts)


def world() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(1)
    y = torch.arange(60) % 3
    x = torch.randn(60, 1, 8, 8, generator=generator) + y[:, None, None, None]
    return {"source": (x, y), "target": 2 * x + 1, "evaluate": (2 * x + 1, y)}


def outputs(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        return model(x)


@pytest.mark.parametrize(
    "settings", [{}, {"transform.own": ("norm", "head")}, {"average.decay": 0.5}, {"recipe": "plus"}]
)
def test_the_base_is_the_same_bit_for_bit(tmp_path: Path, settings: dict[str, Any]) -> None:
    model, data = network().eval(), world()
    before, logits = base_hashes(model), outputs(model, data["target"])
    run = residapt.adapt(model, **data, out=tmp_path / "run", **QUICK, **settings)
    assert base_hashes(model) == base_hashes(run.source) == base_hashes(run.streams.model) == before
    assert torch.equal(outputs(run.source.eval(), data["target"]), logits)
    # Training has turned the weights to another memory format, which shows in the last digits.
    torch.testing.assert_close(run.streams.eval()(data["target"], stream="source"), logits)
    assert not torch.equal(outputs(run.merge_and_unload(), data["target"]), logits)
    assert read_config(tmp_path / "run" / "adapter").carried == ()
    back = residapt.load(network().eval(), tmp_path / "run" / "adapter")
    torch.testing.assert_close(back(data["target"], stream="target"), run.streams(data["target"], stream="target"))
    with pytest.raises(ModelError, match="other values"):
        residapt.load(network(1), tmp_path / "run" / "adapter")


@pytest.mark.parametrize("method", ["dann", "coral", "fine_tune", "pooled", "dsn", "source_only"])
def test_methods_that_train_the_network_are_refused(method: str) -> None:
    config = MethodConfig(train_source=False, transform=TransformConfig(norm="frozen"))
    with pytest.raises(ConfigError, match=rf"'{method}'.*freeze = 'base'"):
        build_method(method, network(), config, example=torch.zeros(2, 1, 8, 8))


def test_shared_statistics_cannot_be_kept() -> None:
    config = MethodConfig(train_source=False, transform=TransformConfig(norm="shared"))
    with pytest.raises(ConfigError, match=r"transform\.norm = 'shared'"):
        build_method("rpt", network(), config, example=torch.zeros(2, 1, 8, 8))


def test_source_images_in_the_target_stream_teach_the_transforms_and_leave_its_statistics() -> None:
    data = world()
    config = MethodConfig.parse({"train_source": False, "transferred_weight": 2.0})
    method = build_method("rpt", network(), config, example=data["target"][:2]).train()
    x, y = data["source"]
    torch.manual_seed(0)
    losses = method.losses(Batch(x[:8], y[:8], data["target"][:8]), 0.0)
    losses.parts["transferred"].backward()
    assert all(p.grad is not None for p in method.streams.transforms.parameters() if p.requires_grad)
    assert all(p.grad is None for p in method.streams.model.parameters())
    own = {name: tensor.clone() for name, tensor in method.streams.statistics.named().items()}
    method.streams.transferred(x[:8] + 100)
    assert all(torch.equal(own[name], tensor) for name, tensor in method.streams.statistics.named().items())


def test_own_parameters_take_the_place_of_transforms() -> None:
    model, data = network(), world()
    streams = TwoStream(model, own=("5.*", "1.weight"), left_rank=2, right_rank=2).eval()
    assert set(streams.ranks()) == {"0"}
    assert set(streams.target_parameters.named()) == {"1.weight", "5.weight", "5.bias"}
    with torch.no_grad():
        streams.target_parameters.named()["5.bias"].add_(1.0)
    moved = streams(data["target"], stream="target")
    merged = copy.deepcopy(streams).merge_and_unload(data["target"])
    assert torch.allclose(outputs(merged, data["target"]), moved)
    with pytest.raises(ModelError, match=r"transform\.own.*'full\*'"):
        TwoStream(network(), own=("full*",))


def test_words_of_own_become_names() -> None:
    def found(own: tuple[str, ...]) -> set[str]:
        config = MethodConfig(transform=TransformConfig(own=own))
        method = build_method("rpt", network(), config, example=torch.zeros(2, 1, 8, 8))
        return set(method.streams.target_parameters.named())

    assert found(("norm",)) == {"1.weight", "1.bias"}
    assert found(("head",)) == {"5.weight", "5.bias"}
    assert found(("bias", "0.*")) == {"0.weight", "0.bias", "1.bias", "5.bias"}
    config = MethodConfig(transform=TransformConfig(own=("norm",)))
    with pytest.raises(ModelError, match="'norm'"):
        build_method("rpt", nn.Linear(3, 2), config, example=torch.zeros(2, 3))
