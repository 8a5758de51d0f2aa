from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from residapt.errors import ConfigError, ModelError
from residapt.models import LeNet
from residapt.streams import TwoStream

NETS = ["mlp", "lenet", "resnet", "conv1d", "transformer", "tied"]
RANKS = {"left_rank": 3, "right_rank": 2}


def grads(module: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", NETS)
def test_the_source_stream_is_the_network(nets: Callable[..., Any], name: str) -> None:
    model, x = nets(name)
    plain = copy.deepcopy(model)
    streams = TwoStream(model, **RANKS)
    for mode in (True, False):
        assert torch.equal(streams.train(mode)(x), plain.train(mode)(x))
    assert streams.model is model


@pytest.mark.parametrize("name", NETS)
def test_the_target_stream_is_the_network_with_target_weights(nets: Callable[..., Any], name: str) -> None:
    """Against a slow oracle: Eq. 2 written out for every layer, loaded into a plain copy of the network."""
    model, x = nets(name)
    streams = TwoStream(model, **RANKS).eval()
    plain = copy.deepcopy(model)
    with torch.no_grad():
        state = dict(plain.named_parameters())
        for layer in streams.layers.values():
            t = streams.transform(layer.name)
            weight, bias = streams.source_tensors(layer.name)
            rows = slice(*layer.rows) if layer.rows else slice(None)
            matrix = weight + t.B1 @ torch.tanh(t.A1.T @ weight @ t.A2 + t.D) @ t.B2.T
            if layer.kind == "conv":
                shape = state[layer.weight].shape
                matrix = matrix.reshape(shape[0], *shape[2:], shape[1]).movedim(-1, 1)
            state[layer.weight][rows] = matrix
            if layer.bias is not None and bias is not None:
                core = torch.tanh(t.A1.T @ bias[:, None] @ t.bias_A2 + t.bias_D)
                state[layer.bias][rows] = bias + (t.B1 @ core @ t.bias_B2.T).squeeze(1)
    found = streams(x, stream="target")
    torch.testing.assert_close(found, plain(x))
    assert not torch.allclose(found, streams(x, stream="source"))


@pytest.mark.parametrize("name", NETS)
def test_rank_zero_makes_both_streams_one(nets: Callable[..., Any], name: str) -> None:
    model, x = nets(name)
    streams = TwoStream(model, left_rank=0, right_rank=0).eval()
    assert torch.equal(streams(x, stream="target"), streams(x, stream="source"))
    assert streams.energy() is None
    assert streams.residuals() == {}
    assert set(streams.ranks().values()) == {(0, 0)}


@pytest.mark.parametrize("name", [*NETS, "dropout"])
def test_training_and_evaluation_compute_the_same_target_weights(nets: Callable[..., Any], name: str) -> None:
    """In training Linear layers may use the factored form; gradients must not depend on that."""
    model, x = nets(name)
    streams = TwoStream(model, **RANKS, norm="frozen")
    dense = copy.deepcopy(streams)
    streams(x, stream="target")  # the first pass is always dense
    results = []
    for stream, factored in ((streams, True), (dense, False)):
        torch.manual_seed(0)
        residuals = stream.residuals()
        if factored:
            out = stream(x, stream="target", residuals=residuals)
        else:
            out = torch.func.functional_call(stream.model, stream.target_state(residuals), (x,))
        out.square().sum().backward()
        results.append((out, grads(stream)))
    torch.testing.assert_close(results[0][0], results[1][0])
    assert results[0][1].keys() == results[1][1].keys()
    for key, value in results[0][1].items():
        torch.testing.assert_close(value, results[1][1][key], msg=key)


class ReadsWeights(nn.Module):
    """As some transformers do: a Linear that is never called, only read."""

    def __init__(self) -> None:
        super().__init__()
        self.read = nn.Linear(40, 40)
        self.head = nn.Linear(40, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(nn.functional.linear(x, self.read.weight, self.read.bias)))


def test_a_linear_whose_weight_is_read_directly_is_transformed_in_training_too() -> None:
    streams = TwoStream(ReadsWeights().double(), **RANKS)
    x = torch.randn(2, 40, dtype=torch.float64)
    expected = streams.eval()(x, stream="target")
    for _ in range(3):
        torch.testing.assert_close(streams.train()(x, stream="target"), expected)


@pytest.mark.parametrize("name", NETS)
def test_gradients_reach_the_network_and_every_factor(nets: Callable[..., Any], name: str) -> None:
    model, x = nets(name)
    streams = TwoStream(model, **RANKS)
    streams(x, stream="target").square().sum().backward()
    missing = [key for key, p in streams.named_parameters() if p.grad is None]
    assert missing == []
    silent = {key for key, p in streams.named_parameters() if not bool(p.grad.any())}
    # Softmax does not change when a number is added to all scores, so the keys' biases have no effect.
    assert not {key for key in silent if "in_proj/k" not in key}


def test_the_gradient_of_the_target_stream_is_the_derivative(nets: Callable[..., Any]) -> None:
    model, x = nets("mlp")
    streams = TwoStream(model, left_rank=2, right_rank=2)
    names = [name for name, _ in streams.named_parameters()]

    def loss(*values: Tensor) -> Tensor:
        state = dict(zip(names, values, strict=True))
        return torch.func.functional_call(streams, state, (x,), {"stream": "target"}).square().sum()

    assert torch.autograd.gradcheck(loss, tuple(streams.parameters()))


def test_backward_twice(nets: Callable[..., Any]) -> None:
    model, x = nets("resnet")
    streams = TwoStream(model, **RANKS)
    loss = streams(x, stream="target").square().sum() + streams(x, stream="source").sum()
    loss.backward(retain_graph=True)
    once = grads(streams)
    loss.backward()
    for name, gradient in grads(streams).items():
        torch.testing.assert_close(gradient, 2 * once[name])
    streams(x, stream="target").sum().backward()


def test_a_given_residual_is_used_and_not_computed_again(nets: Callable[..., Any]) -> None:
    model, x = nets("mlp")
    streams = TwoStream(model, **RANKS)
    residuals = streams.residuals()
    expected = streams(x, stream="target", residuals=residuals)
    with torch.no_grad():
        for parameter in streams.transforms.parameters():
            parameter.zero_()
    assert torch.equal(streams.outputs(x, stream="target", residuals={}).logits, streams(x))
    torch.testing.assert_close(streams(x, stream="target"), streams(x))
    assert not torch.allclose(expected, streams(x))


@pytest.mark.parametrize("name", ["mlp", "resnet", "transformer"])
def test_deepcopy_is_independent(nets: Callable[..., Any], name: str) -> None:
    model, x = nets(name)
    streams = TwoStream(model, **RANKS)
    copied = copy.deepcopy(streams)
    torch.testing.assert_close(copied(x, stream="target"), streams(x, stream="target"))
    before = streams.eval()(x, stream="target")
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.add_(1.0)
    copied.train()(x, stream="target").sum().backward()
    assert torch.equal(streams(x, stream="target"), before)
    assert all(parameter.grad is None for parameter in streams.parameters())
    shared = {id(t) for t in (*streams.parameters(), *streams.buffers())} & {
        id(t) for t in (*copied.parameters(), *copied.buffers())
    }
    assert not shared


@pytest.mark.parametrize("name", NETS)
def test_state_dict_round_trip(nets: Callable[..., Any], name: str) -> None:
    model, x = nets(name)
    streams = TwoStream(model, **RANKS)
    streams(x, stream="target")
    other = TwoStream(nets(name, seed=1).model, **RANKS, seed=1)
    assert not torch.allclose(other.eval()(x, stream="target"), streams.eval()(x, stream="target"))
    other.load_state_dict(streams.state_dict())
    for stream in ("source", "target"):
        assert torch.equal(other(x, stream=stream), streams(x, stream=stream))


def test_change_of_dtype(nets: Callable[..., Any]) -> None:
    model, x = nets("resnet")
    streams = TwoStream(model, **RANKS).eval()
    double = streams(x, stream="target")
    streams.to(torch.float32)
    assert {t.dtype for t in streams.state_dict().values() if t.is_floating_point()} == {torch.float32}
    single = streams(x.float(), stream="target")
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), double, atol=1e-4, rtol=1e-4)


def test_dropout_is_drawn_anew_in_each_stream_and_off_in_evaluation(nets: Callable[..., Any]) -> None:
    model, x = nets("dropout")
    streams = TwoStream(model, **RANKS)
    assert not torch.equal(streams(x, stream="target"), streams(x, stream="target"))
    streams.eval()
    assert torch.equal(streams(x, stream="target"), streams(x, stream="target"))


def test_layers_after_the_features_are_shared(nets: Callable[..., Any]) -> None:
    model, x = nets("lenet")
    streams = TwoStream(model, features="relu3", **RANKS).eval()
    assert "full4" not in streams.layers
    out = streams.outputs(x, stream="target")
    assert out.features.shape == (len(x), 500)
    torch.testing.assert_close(model.full4(out.features), out.logits)
    assert "full4.weight" not in streams.target_state()


def test_features_of_a_map_are_flattened(nets: Callable[..., Any]) -> None:
    model, x = nets("lenet")
    assert TwoStream(model, features="pool1", **RANKS).outputs(x).features.shape == (len(x), 20 * 6 * 6)


def test_without_features_the_logits_are_read(nets: Callable[..., Any]) -> None:
    model, x = nets("lenet")
    out = TwoStream(model, **RANKS).outputs(x, stream="target")
    assert out.features is out.logits


@pytest.mark.parametrize("stream", ["source", "target"])
def test_outputs_and_inputs_of_inner_layers_can_be_read(nets: Callable[..., Any], stream: Any) -> None:
    model, x = nets("lenet")
    streams = TwoStream(model, **RANKS)
    out = streams.outputs(x, stream=stream, inner=("conv1", "full4", "full4:input"))
    assert out.inner["conv1"].shape == (len(x), 20, 12, 12)
    assert torch.equal(out.inner["full4"], out.logits)
    assert out.inner["full4:input"].shape == (len(x), 500)
    assert not any(module._forward_hooks for module in streams.modules()), "hooks are taken off again"
    out.inner["conv1"].sum().backward()
    assert model.conv1.weight.grad is not None


@pytest.mark.parametrize(("include", "expected"), [(["*in_proj.q"], slice(0, 8)), (["*in_proj.v"], slice(16, 24))])
def test_one_projection_of_a_packed_attention(nets: Callable[..., Any], include: list[str], expected: slice) -> None:
    streams = TwoStream(nets("transformer").model, include=include, **RANKS)
    name = "encoder.layers.0.self_attn.in_proj_weight"
    changed = (streams.target_state()[name] != streams.model.get_parameter(name)).any(1)
    assert bool(changed[expected].all())
    assert int(changed.sum()) == 8


def test_tied_weights_stay_tied_in_the_target(nets: Callable[..., Any]) -> None:
    model, x = nets("tied")
    streams = TwoStream(model, **RANKS).eval()
    state = streams.target_state()
    plain = copy.deepcopy(model)
    with torch.no_grad():
        for name, tensor in state.items():
            plain.get_parameter(name).copy_(tensor)
    assert plain.second.weight is plain.first.weight
    torch.testing.assert_close(plain(x), streams(x, stream="target"))


def test_both_streams_at_once(nets: Callable[..., Any]) -> None:
    model, x = nets("mlp")
    streams = TwoStream(model, **RANKS)
    source, target = streams.both(x[:2], x[2:], inner=("0",))
    torch.testing.assert_close(source.logits, streams(x[:2]))
    torch.testing.assert_close(target.logits, streams(x[2:], stream="target"))
    assert target.inner["0"].shape == (3, 8)


def test_one_pass_serves_both_domains_where_nothing_differs(nets: Callable[..., Any]) -> None:
    model, x = nets("mlp")
    streams = TwoStream(model, left_rank=0, right_rank=0)
    calls: list[int] = []
    model.register_forward_hook(lambda *_: calls.append(1))
    source, target = streams.both(x[:2], x[2:], inner=("0",))
    assert len(calls) == 1
    torch.testing.assert_close(source.logits, model(x[:2]))
    torch.testing.assert_close(target.logits, model(x[2:]))
    assert source.inner["0"].shape == (2, 8)


def test_statistics_of_a_batch_are_never_taken_over_both_domains() -> None:
    """Batch norm without running statistics still normalises by its batch: the domains must not share one."""
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 2)).double()
    x = torch.randn(8, 3, dtype=torch.float64)
    for policy in ("per-domain", "shared", "frozen"):
        streams = TwoStream(model, include=(), norm=policy)
        source, target = streams.both(x[:3], x[3:])
        torch.testing.assert_close(source.logits, model(x[:3]))
        torch.testing.assert_close(target.logits, model(x[3:]))


def test_an_object_with_logits_is_accepted() -> None:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 2)

        def forward(self, x: Tensor) -> SimpleNamespace:
            return SimpleNamespace(logits=self.fc(x))

    assert TwoStream(Wrapped(), **RANKS)(torch.randn(4, 3), stream="target").shape == (4, 2)


@pytest.mark.parametrize("name", ["keys", "values", "pop", "model"])
def test_layers_may_have_any_name(name: str) -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            setattr(self, name, nn.Linear(3, 2))

        def forward(self, x: Tensor) -> Tensor:
            return getattr(self, name)(x)

    streams = TwoStream(Named(), **RANKS)
    assert streams(torch.randn(4, 3), stream="target").shape == (4, 2)


def test_a_wrong_stream_is_named(nets: Callable[..., Any]) -> None:
    model, x = nets("mlp")
    with pytest.raises(ConfigError, match=r"'source'.*'target'.*'tgt'"):
        TwoStream(model, **RANKS)(x, stream="tgt")


def test_a_network_that_does_not_return_logits_is_named() -> None:
    class Tuples(nn.Linear):
        def forward(self, x: Tensor) -> Any:
            return (super().forward(x),)

    with pytest.raises(ModelError, match=r"Tuples.*tuple"):
        TwoStream(Tuples(3, 2))(torch.randn(4, 3))
    with pytest.raises(ModelError, match=r"(Flatten|Sequential).*\(8,\)"):
        TwoStream(nn.Sequential(nn.Linear(3, 2), nn.Flatten(0)))(torch.randn(4, 3))


def test_an_unknown_inner_layer_is_named() -> None:
    with pytest.raises(ModelError, match=r"'conv9'.*LeNet.*conv"):
        TwoStream(LeNet(image_size=16), **RANKS).outputs(torch.randn(2, 1, 16, 16), inner=("conv9",))


def test_an_inner_layer_that_is_never_called_is_named() -> None:
    streams = TwoStream(ReadsWeights(), **RANKS)
    with pytest.raises(ModelError, match=r"'read'.*ReadsWeights"):
        streams.outputs(torch.randn(2, 40), inner=("read",))


@pytest.mark.parametrize("switch", ["gradient_checkpointing", "grad_checkpointing"])
def test_gradient_checkpointing_is_refused_for_training(nets: Callable[..., Any], switch: str) -> None:
    """It would recompute the target's layers with the source's weights and give wrong gradients in silence."""
    model, _ = nets("resnet")
    streams = TwoStream(model, **RANKS)
    setattr(model.stem, switch, True)
    streams.eval()
    with pytest.raises(ModelError, match=rf"'stem'.*{switch}"):
        streams.train()
    TwoStream(model, include=()).train()
