from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from residapt.streams import TwoStream, batch_norms
from residapt.streams.norm import couples_samples

RANKS = {"left_rank": 2, "right_rank": 2}


def statistics(model: nn.Module) -> dict[str, Tensor]:
    return {name: buffer.clone() for name, buffer in model.named_buffers()}


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_each_stream_has_statistics_of_its_own(nets: Callable[..., Any]) -> None:
    model, x = nets("resnet")
    streams = TwoStream(model, **RANKS)
    start = statistics(model)
    streams(x + 3.0, stream="target")
    assert equal(statistics(model), start), "a target pass leaves the source's statistics alone"
    assert not equal(streams.statistics.named(), start)
    own = {name: buffer.clone() for name, buffer in streams.statistics.named().items()}
    streams(x, stream="source")
    assert not equal(statistics(model), start)
    assert equal(streams.statistics.named(), own), "and the other way round"


def test_target_statistics_are_those_of_a_network_trained_on_the_target_alone(nets: Callable[..., Any]) -> None:
    """A slow oracle: a plain copy with the target weights, run on the same target batches."""
    model, x = nets("resnet")
    streams = TwoStream(model, **RANKS)
    plain = copy.deepcopy(model)
    with torch.no_grad():
        for name, tensor in streams.target_state().items():
            if name in dict(plain.named_parameters()):
                plain.get_parameter(name).copy_(tensor)
    for shift in (1.0, 2.0):
        torch.testing.assert_close(streams(x + shift, stream="target"), plain(x + shift))
        streams(x, stream="source")
    found = streams.statistics.named()
    for name, buffer in plain.named_buffers():
        torch.testing.assert_close(found[name], buffer)
    assert int(found["bn1.num_batches_tracked"]) == 2
    torch.testing.assert_close(streams.eval()(x, stream="target"), plain.eval()(x))


def test_shared_statistics_are_updated_by_both_streams(nets: Callable[..., Any]) -> None:
    model, x = nets("resnet")
    streams = TwoStream(model, norm="shared", **RANKS)
    assert streams.statistics.named() == {}
    start = statistics(model)
    streams(x, stream="target")
    middle = statistics(model)
    assert not equal(middle, start)
    streams(x, stream="source")
    assert not equal(statistics(model), middle)


@pytest.mark.parametrize("called_train", [True, False])
def test_frozen_statistics_never_change_and_are_constants(nets: Callable[..., Any], called_train: bool) -> None:
    model, x = nets("resnet")
    streams = TwoStream(model, norm="frozen", **RANKS)
    if called_train:
        streams.train()
    start = statistics(model)
    for stream in ("source", "target"):
        alone = streams(x[:1], stream=stream)
        torch.testing.assert_close(streams(x, stream=stream)[:1], alone)
    assert equal(statistics(model), start)
    assert streams.training
    assert not model.bn1.training


def test_scale_and_shift_are_shared(nets: Callable[..., Any]) -> None:
    model, x = nets("resnet")
    streams = TwoStream(model, **RANKS)
    streams(x, stream="target").sum().backward()
    assert model.bn1.weight.grad is not None
    assert not any("bn" in name for name, _ in streams.transforms.named_parameters())


def test_statistics_are_saved_and_moved(nets: Callable[..., Any]) -> None:
    model, x = nets("resnet")
    streams = TwoStream(model, **RANKS)
    streams(x + 3.0, stream="target")
    saved = {key: value for key, value in streams.state_dict().items() if key.startswith("statistics.")}
    assert len(saved) == 3 * len(list(batch_norms(model))) == 12
    streams.to(torch.float32)
    assert streams.statistics.named()["bn1.running_mean"].dtype == torch.float32


def test_evaluation_updates_nothing(nets: Callable[..., Any]) -> None:
    model, x = nets("resnet")
    streams = TwoStream(model, **RANKS).eval()
    before = {**statistics(model), **{f"target {k}": v.clone() for k, v in streams.statistics.named().items()}}
    streams(x, stream="source")
    streams(x, stream="target")
    assert equal({**statistics(model), **{f"target {k}": v for k, v in streams.statistics.named().items()}}, before)


def test_when_domains_need_a_pass_each() -> None:
    tracking, forgetful, plain = nn.BatchNorm1d(2), nn.BatchNorm1d(2, track_running_stats=False), nn.Linear(2, 2)
    assert couples_samples(tracking, "per-domain")
    assert couples_samples(tracking, "shared")
    assert not couples_samples(tracking, "frozen")
    assert couples_samples(forgetful, "frozen")
    assert not couples_samples(plain, "per-domain")


def test_a_network_that_is_one_batch_norm_and_one_without_statistics() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2, track_running_stats=False), nn.Linear(2, 2))
    assert list(batch_norms(model)) == []
    assert TwoStream(model, **RANKS)(torch.randn(4, 3), stream="target").shape == (4, 2)


@pytest.mark.parametrize("norm", ["per-domain", "shared", "frozen"])
def test_evaluation_and_merged_model_use_the_statistics_of_the_right_stream(
    nets: Callable[..., Any], norm: str
) -> None:
    """Against statistics that are computed here, by hand, from what the first batch norm is given."""
    model, x = nets("resnet")
    streams = TwoStream(model, norm=norm, **RANKS).train()
    start = statistics(model)
    source, target = x, 2.0 * x + 3.0
    seen = {}
    for stream, batch in (("source", source), ("target", target)):
        given = streams.outputs(batch, stream=stream, inner=("bn1:input",)).inner["bn1:input"].detach()
        seen[stream] = given.mean((0, 2, 3))
    m, mean = model.bn1.momentum, start["bn1.running_mean"]
    expected = {
        "per-domain": {stream: (1 - m) * mean + m * seen[stream] for stream in seen},
        "shared": dict.fromkeys(seen, (1 - m) * ((1 - m) * mean + m * seen["source"]) + m * seen["target"]),
        "frozen": dict.fromkeys(seen, mean),
    }[norm]
    streams.eval()
    merged = streams.merge_and_unload(target).eval()
    torch.testing.assert_close(model.bn1.running_mean, expected["source"])
    torch.testing.assert_close(merged.bn1.running_mean, expected["target"])
    live = {stream: streams(target, stream=stream) for stream in ("source", "target")}
    torch.testing.assert_close(merged(target), live["target"])
    torch.testing.assert_close(model.eval()(target), live["source"])
    with torch.no_grad():
        merged.bn1.running_mean.copy_(expected["source"])
    same = torch.allclose(merged(target), live["target"])
    assert same is (norm != "per-domain"), "another stream's statistics give other logits"


@pytest.mark.parametrize("norm", ["per-domain", "shared", "frozen"])
@pytest.mark.parametrize("include", [("*",), ()])
def test_a_whole_step_updates_the_same_statistics_as_two_passes(
    nets: Callable[..., Any], norm: str, include: tuple[str, ...]
) -> None:
    """Both streams at once (or one network for both, as in DANN) against one call after the other."""
    model, x = nets("resnet")
    streams = TwoStream(model, norm=norm, include=include, **RANKS).train()
    apart = copy.deepcopy(streams)
    streams.both(x, x + 1.0)
    apart.outputs(x, stream="source")
    apart.outputs(x + 1.0, stream="target")
    for (name, one), (_, other) in zip(streams.named_buffers(), apart.named_buffers(), strict=True):
        torch.testing.assert_close(one, other, msg=name)
