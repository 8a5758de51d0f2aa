from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from residapt.streams import TwoStream
from residapt.streams.fast import rebuilt


@pytest.fixture(autouse=True)
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rebuild small weights too."""
    monkeypatch.setattr(rebuilt, "SMALLEST", 1)


def network(channels: int, kernel: int, groups: int, *, last: bool) -> TwoStream:
    torch.manual_seed(0)
    layers = nn.Sequential(
        nn.Conv2d(2, channels, 1),
        nn.Tanh(),
        nn.Conv2d(channels, 2 * channels, kernel, groups=groups),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * channels, 3),
    )
    streams = TwoStream(layers.double(), left_rank=3, right_rank=2)
    return streams.to(memory_format=torch.channels_last) if last else streams


def gradients(streams: TwoStream, x: Tensor, weights: dict[str, Tensor] | None = None) -> list[Tensor]:
    x = x.clone().requires_grad_()
    y = streams(x, stream="target") if weights is None else torch.func.functional_call(streams.model, weights, (x,))
    return list(torch.autograd.grad(y.square().sum(), [x, *streams.parameters()]))


@settings(max_examples=25)
@given(
    channels=st.sampled_from([2, 4, 6]), kernel=st.integers(1, 3), groups=st.sampled_from([1, 2]), last=st.booleans()
)
def test_gradients_are_those_of_dense_weights(channels: int, kernel: int, groups: int, last: bool) -> None:
    streams = network(channels, kernel, groups, last=last).train()
    x = torch.randn(4, 2, 5, 5, dtype=torch.float64)
    dense = streams.target_state()
    for mine, plain in zip(gradients(streams, x), gradients(streams, x, dense), strict=True):
        torch.testing.assert_close(mine, plain)


def test_the_backward_pass_keeps_no_target_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = network(4, 3, 1, last=False).train()
    kept, pack = [], rebuilt.Rebuilt._pack
    monkeypatch.setattr(rebuilt.Rebuilt, "_pack", lambda self, tensor: kept.append(pack(self, tensor)) or kept[-1])
    streams(torch.randn(4, 2, 5, 5, dtype=torch.float64), stream="target")
    weights = [streams.model.get_parameter(name) for name in ("0.weight", "2.weight")]
    assert kept.count(None) == len(weights)
    assert not {tensor.shape for tensor in kept if tensor is not None} & {weight.shape for weight in weights}


def test_a_step_between_the_passes_is_refused() -> None:
    streams = network(4, 3, 1, last=False).train()
    loss = streams(torch.randn(4, 2, 5, 5, dtype=torch.float64), stream="target").sum()
    with torch.no_grad():
        streams.model.get_parameter("2.weight").mul_(2)
    with pytest.raises(RuntimeError, match="'2'"):
        loss.backward()
