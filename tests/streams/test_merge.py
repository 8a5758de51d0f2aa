from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from residapt.errors import ModelError
from residapt.streams import TwoStream, check_merge, merge_and_unload

NETS = ["mlp", "lenet", "resnet", "conv1d", "transformer", "tied", "dropout"]
KINDS = [
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "grouped",
    "grouped_transpose",
    "depthwise",
    "attention",
    "attention_kv",
]


def lived_in(model: nn.Module, x: Tensor, **settings: Any) -> TwoStream:
    """A two-stream model after a few passes and a random walk of its transforms, D included."""
    streams = TwoStream(model, left_rank=3, right_rank=2, **settings)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in streams.transforms.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    for shift in (0.5, 1.0):
        streams(x + shift, stream="target")
        streams(x, stream="source")
    return streams


def assert_merged_equals_live(streams: TwoStream, x: Tensor) -> nn.Module:
    merged = merge_and_unload(streams, x)
    for mode in (True, False):
        streams.train(mode)
        # Modes are copied, so frozen batch norm stays frozen in the merged network as well.
        merged = merge_and_unload(streams)
        torch.manual_seed(0)
        live = streams(x, stream="target")
        torch.manual_seed(0)
        torch.testing.assert_close(merged(x), live)
    assert not torch.allclose(merged(x), streams(x, stream="source")), "the merge must have changed something"
    return merged


@pytest.mark.parametrize(
    ("name", "norm"), [*((name, "per-domain") for name in NETS), ("resnet", "shared"), ("resnet", "frozen")]
)
def test_merged_equals_live(nets: Callable[..., Any], name: str, norm: str) -> None:
    model, x = nets(name)
    assert_merged_equals_live(lived_in(model, x, norm=norm), x)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [True, False])
def test_merged_equals_live_for_every_kind_of_layer(layer_nets: Callable[..., Any], kind: str, bias: bool) -> None:
    model, x = layer_nets(kind, bias=bias)
    assert_merged_equals_live(lived_in(model, x), x)


@pytest.mark.parametrize("kind", ["linear", "conv2d", "grouped_transpose", "attention", "attention_kv"])
@pytest.mark.parametrize("mode", ["separate", "shared"])
def test_merged_equals_live_with_other_treatments_of_biases(
    layer_nets: Callable[..., Any], kind: str, mode: str
) -> None:
    model, x = layer_nets(kind)
    streams = lived_in(model, x, bias=mode)
    assert_merged_equals_live(streams, x)
    state = streams.target_state()
    changed = {name for name, p in model.named_parameters() if not torch.equal(state.get(name, p), p)}
    # A packed bias of an attention with own key widths is a layer of its own, whatever the setting.
    biases = {name for name in changed if name.endswith("bias")} - {"layer.layer.in_proj_bias"}
    assert bool(biases) == (mode == "separate")


@pytest.mark.parametrize("kind", ["linear", "conv2d", "attention"])
def test_merged_equals_live_in_the_vector_form(layer_nets: Callable[..., Any], kind: str) -> None:
    model, x = layer_nets(kind)
    assert_merged_equals_live(lived_in(model, x, form="vector"), x)


@pytest.mark.parametrize("name", ["lenet", "resnet"])
def test_merged_equals_live_in_channels_last(nets: Callable[..., Any], name: str) -> None:
    model, x = nets(name)
    model.to(memory_format=torch.channels_last)
    assert_merged_equals_live(lived_in(model, x), x.contiguous(memory_format=torch.channels_last))


@pytest.mark.parametrize("name", NETS)
def test_nothing_of_residapt_is_left(nets: Callable[..., Any], name: str) -> None:
    model, x = nets(name)
    plain = copy.deepcopy(model)
    streams = lived_in(model, x)
    before = copy.deepcopy(streams.state_dict())
    merged = merge_and_unload(streams, x)
    assert [(n, type(m)) for n, m in merged.named_modules()] == [(n, type(m)) for n, m in plain.named_modules()]
    assert [(k, v.shape, v.dtype) for k, v in merged.state_dict().items()] == [
        (k, v.shape, v.dtype) for k, v in plain.state_dict().items()
    ]
    for module in merged.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
        assert "forward" not in vars(module)
        assert not type(module).__module__.startswith(("residapt.streams", "residapt.transform"))
    assert all(isinstance(p, nn.Parameter) and p.is_leaf and p.grad is None for p in merged.parameters())
    with torch.no_grad():
        for parameter in merged.parameters():
            parameter.zero_()
    after = streams.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before), "the live model is not touched"


def test_tied_weights_are_tied_in_the_merged_network(nets: Callable[..., Any]) -> None:
    model, x = nets("tied")
    merged: Any = merge_and_unload(lived_in(model, x), x)
    assert merged.second.weight is merged.first.weight


def test_the_merge_restores_all_modes(nets: Callable[..., Any]) -> None:
    model, x = nets("resnet")
    streams = lived_in(model, x, norm="frozen").train()
    model.stem.eval()
    modes = [module.training for module in streams.modules()]
    merged = merge_and_unload(streams, x)
    assert [module.training for module in streams.modules()] == modes
    assert [module.training for module in merged.modules()] == [module.training for module in model.modules()]


def test_the_method_gives_the_same_network(nets: Callable[..., Any]) -> None:
    model, x = nets("mlp")
    streams = lived_in(model, x)
    assert torch.equal(streams.merge_and_unload(x)(x), merge_and_unload(streams)(x))


def test_a_network_that_keeps_a_copy_of_its_weights_is_refused() -> None:
    class Cached(nn.Linear):
        """Transposes its weight at the first call and computes with that from then on."""

        transposed: Tensor | None = None

        def forward(self, x: Tensor) -> Tensor:
            if self.transposed is None:
                self.transposed = self.weight.detach().T.clone()
            return x @ self.transposed

    streams = TwoStream(Cached(3, 2), left_rank=1, right_rank=1)
    streams.model.transposed = torch.zeros(3, 2)
    merged = merge_and_unload(streams)
    merged.transposed = None
    with pytest.raises(ModelError, match="1e-04"):
        check_merge(streams, merged, torch.randn(4, 3), 1e-4)


def test_after_pruning_to_nothing_the_merged_network_is_the_source(nets: Callable[..., Any]) -> None:
    model, x = nets("lenet")
    streams = TwoStream(model, left_rank=0, right_rank=0).eval()
    assert torch.equal(merge_and_unload(streams, x)(x), model(x))
