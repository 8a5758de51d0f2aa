"""Both streams in one call must be what two calls are: outputs, gradients, statistics, for any network."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from residapt.streams import Outputs, TwoStream
from residapt.streams.fast.pair import Pair, StreamsDiffer, pair_part

NETS = ["mlp", "lenet", "resnet", "conv1d", "transformer", "tied"]
KINDS = ["linear", "conv3d", "conv_transpose2d", "grouped_transpose", "attention", "attention_kv"]
RANKS = {"left_rank": 3, "right_rank": 2}


def one_by_one(streams: TwoStream, source: Tensor, target: Tensor, inner: tuple[str, ...]) -> tuple[Outputs, Outputs]:
    """Two separate calls, the second with dense weights: the definition."""
    first = streams.outputs(source, stream="source", inner=inner)
    residuals = streams.residuals()
    state = streams.target_state(residuals)
    caught: dict[str, Tensor] = {}
    handles = [
        streams.model.get_submodule(name).register_forward_hook(
            lambda _m, _i, out, name=name: caught.update({name: out})
        )
        for name in inner
    ]
    logits = torch.func.functional_call(streams.model, state, (target,))
    for handle in handles:
        handle.remove()
    return first, Outputs(logits, logits, caught)


def total(outputs: tuple[Outputs, Outputs]) -> Tensor:
    """A loss that depends on both streams, differently."""
    source, target = outputs
    return source.logits.square().sum() + 2 * target.logits.sin().sum() + (source.logits.mean() * target.logits.mean())


def assert_same(streams: TwoStream, source: Tensor, target: Tensor, inner: tuple[str, ...] = ()) -> None:
    other = copy.deepcopy(streams)
    for _ in range(2):
        found, expected = streams.both(source, target, inner=inner), one_by_one(other, source, target, inner)
        for mine, theirs in zip(found, expected, strict=True):
            assert type(mine.logits) is Tensor
            torch.testing.assert_close(mine.logits, theirs.logits)
            for name in inner:
                torch.testing.assert_close(mine.inner[name], theirs.inner[name])
        total(found).backward()
        total(expected).backward()
    gradients = {name: p.grad for name, p in other.named_parameters()}
    for name, parameter in streams.named_parameters():
        wanted = gradients[name]
        assert (parameter.grad is None) == (wanted is None), name
        if wanted is not None:
            torch.testing.assert_close(parameter.grad, wanted, msg=name)
    buffers = dict(other.named_buffers())
    for name, buffer in streams.named_buffers():
        assert type(buffer) is Tensor, name
        torch.testing.assert_close(buffer, buffers[name], msg=name)


@pytest.mark.parametrize("name", NETS)
def test_both_equals_two_calls(nets: Callable[..., Any], name: str) -> None:
    model, x = nets(name)
    assert_same(TwoStream(model, **RANKS), x, x.flip(0) + 0.3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [True, False])
def test_both_equals_two_calls_for_every_kind_of_layer(layer_nets: Callable[..., Any], kind: str, bias: bool) -> None:
    model, x = layer_nets(kind, bias=bias)
    assert_same(TwoStream(model, **RANKS), x, x.flip(0) + 0.3)


@pytest.mark.parametrize("norm", ["per-domain", "shared", "frozen"])
@pytest.mark.parametrize("sizes", [(5, 5), (3, 2)])
def test_both_with_batch_norm_and_batches_of_two_sizes(
    nets: Callable[..., Any], norm: str, sizes: tuple[int, int]
) -> None:
    model, x = nets("resnet")
    assert_same(TwoStream(model, norm=norm, **RANKS), x[: sizes[0]], x[-sizes[1] :] + 0.3)


@pytest.mark.parametrize("settings", [{"form": "vector"}, {"bias": "separate"}, {"bias": "shared"}, {"include": ["0"]}])
def test_both_with_other_settings(nets: Callable[..., Any], settings: dict[str, Any]) -> None:
    model, x = nets("mlp")
    assert_same(TwoStream(model, **RANKS, **settings), x, x + 0.3)


def test_both_reads_inner_layers_and_features(nets: Callable[..., Any]) -> None:
    model, x = nets("lenet")
    assert_same(TwoStream(model, **RANKS), x, x + 0.3, inner=("conv1", "relu3"))
    streams = TwoStream(nets("lenet").model, features="relu3", **RANKS)
    source, target = streams.both(x, x + 0.3, inner=("full4:input",))
    for out in (source, target):
        assert type(out.features) is Tensor
        assert torch.equal(out.features, out.inner["full4:input"])


class Net(nn.Module):
    """A layer with batch norm, something odd in the middle, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8))
        self.head = nn.Linear(8, 3)

    def odd(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.odd(torch.tanh(self.body(x))))


class Branches(Net):
    def odd(self, x: Tensor) -> Tensor:
        return x * 2 if float(x.detach().sum()) > 0 else x


class OwnFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 3

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0] * 3


class Functions(Net):
    def odd(self, x: Tensor) -> Tensor:
        return OwnFunction.apply(x)


class InPlace(Net):
    def odd(self, x: Tensor) -> Tensor:
        x = x.clone()
        x += 1.0
        x[:, 0] = 0.5
        return functional.relu(x.mul_(2.0), inplace=True)


class Writes(Net):
    def odd(self, x: Tensor) -> Tensor:
        out = torch.zeros(len(x), 8, dtype=x.dtype)
        out[:, :4] = x[:, :4]
        return out + x


class Moves(Net):
    """Keeps a mean of its own by assignment, not in place."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(8, dtype=torch.float64))

    def odd(self, x: Tensor) -> Tensor:
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return x - self.mean


class Remembers(Net):
    """Makes a mask at the first call and keeps it."""

    mask: Tensor | None = None

    def odd(self, x: Tensor) -> Tensor:
        if self.mask is None:
            self.mask = torch.ones_like(x[:1]) * 0.5
        return x * self.mask


class Reads(Net):
    def odd(self, x: Tensor) -> Tensor:
        return x + functional.linear(x.mean(1, keepdim=True), self.head.weight.sum(0)[:, None])


class ToList(Net):
    def odd(self, x: Tensor) -> Tensor:
        return x * (1.0 + len(x.detach().tolist()))


@pytest.mark.parametrize("kind", [Branches, Functions, InPlace, Writes, Moves, Remembers, Reads, ToList])
def test_both_equals_two_calls_for_odd_networks(kind: type[Net]) -> None:
    """Also where pairs cannot go through: statistics are then not counted twice, and nothing of them stays."""
    torch.manual_seed(0)
    model = kind().double()
    streams = TwoStream(model, **RANKS)
    x = torch.randn(4, 6, dtype=torch.float64)
    assert_same(streams, x, x.flip(0) - 1.0)
    streams.eval()
    assert type(streams(x)) is Tensor
    assert type(streams(x, stream="target")) is Tensor
    for module in model.modules():
        assert not any(isinstance(value, Pair) for value in vars(module).values())


def test_an_error_of_the_network_itself_is_the_networks() -> None:
    class Faulty(Net):
        def odd(self, x: Tensor) -> Tensor:
            raise ZeroDivisionError("as in two calls")

    x = torch.randn(4, 6)
    with pytest.raises(ZeroDivisionError, match="as in two calls"):
        TwoStream(Faulty(), **RANKS).both(x, x)


def test_evaluation_and_no_grad_go_one_by_one(nets: Callable[..., Any]) -> None:
    model, x = nets("transformer")
    streams = TwoStream(model, **RANKS).eval()
    with torch.no_grad():
        source, target = streams.both(x, x + 1.0)
    torch.testing.assert_close(source.logits, streams(x))
    torch.testing.assert_close(target.logits, streams(x + 1.0, stream="target"))


def test_dropout_masks_differ_between_the_streams(nets: Callable[..., Any]) -> None:
    model, x = nets("dropout")
    streams = TwoStream(model, **RANKS)
    source, target = streams.both(x, x, inner=("1",))
    zero = [out.inner["1"] == 0 for out in (source, target)]
    assert bool(zero[0].any())
    assert not torch.equal(zero[0], zero[1])


def test_a_pair_acts_on_both_and_refuses_what_differs() -> None:
    pair = Pair(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    doubled = pair * 2 + torch.tensor([1.0, 0.0])
    assert pair_part(doubled, "source").tolist() == [3.0, 4.0]
    assert pair_part(doubled, "target").tolist() == [7.0, 8.0]
    assert pair.shape == (2,)
    parts = pair.split(1)
    assert pair_part(parts[1], "target").item() == 4.0
    with pytest.raises(StreamsDiffer, match=r"\b1\.0\b.*\b3\.0\b"):
        float(pair[0])
    with pytest.raises(StreamsDiffer, match="into one tensor"):
        torch.zeros(2).add_(pair)
