"""LeNet, SvhNet, DTN and UavNet: sizes, names and the max-norm projection."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from residapt.errors import ConfigError, ModelError
from residapt.models import DTN, GaninLeNet, LeNet, SvhNet, UavNet, max_norm_


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def on_meta(kind: type[nn.Module], **kwargs: int) -> nn.Module:
    with torch.device("meta"):
        return kind(**kwargs)


def test_parameter_counts_are_the_published_ones() -> None:
    assert count(on_meta(LeNet)) == 431_080
    assert count(on_meta(GaninLeNet)) == 127_290
    assert count(on_meta(SvhNet)) == 31_795_146


def test_layer_names_are_those_of_the_rank_table() -> None:
    def names(model: nn.Module) -> list[str]:
        return [n for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))]

    assert names(on_meta(LeNet)) == ["conv1", "conv2", "full3", "full4"]
    assert names(on_meta(SvhNet)) == ["conv1", "conv2", "conv3", "full4", "full5", "full6"]


@pytest.mark.parametrize(
    ("kind", "channels", "size"),
    [(LeNet, 1, 28), (LeNet, 3, 32), (GaninLeNet, 1, 28), (DTN, 3, 32), (DTN, 1, 28), (UavNet, 1, 40)],
)
def test_logits_for_other_channels_and_sizes(kind: type[nn.Module], channels: int, size: int) -> None:
    net = kind(in_channels=channels, num_classes=7, image_size=size)
    assert net(torch.rand(2, channels, size, size)).shape == (2, 7)


@pytest.mark.parametrize("size", [28, 31, 32])
def test_svhnet_flattens_any_size(size: int) -> None:
    net = on_meta(SvhNet, image_size=size)
    assert net(torch.empty(2, 3, size, size, device="meta")).shape == (2, 10)


def test_svhnet_pools_like_same_padding() -> None:
    """TensorFlow's SAME pads an even side by one at the end only, so the first window starts at pixel 0."""
    pool = on_meta(SvhNet).pool1
    image = torch.arange(64.0).view(1, 1, 8, 8)
    padded = nn.functional.pad(image, (0, 1, 0, 1), value=-torch.inf)
    assert torch.equal(pool(image), nn.functional.max_pool2d(padded, 3, 2))


def test_dropout_rates_of_srivastava() -> None:
    rates = [m.p for m in on_meta(SvhNet).modules() if isinstance(m, nn.Dropout)]
    assert rates == [0.1, 0.25, 0.25, 0.5, 0.5, 0.5]


def test_too_small_images_are_refused_with_their_size() -> None:
    with pytest.raises(ModelError, match="image_size=12"):
        LeNet(image_size=12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.05, 5.0))
def test_max_norm_is_the_projection_of_each_unit(seed: int, limit: float) -> None:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Conv2d(2, 4, 3), nn.Flatten(), nn.Linear(4, 3)).double()
    for p in net.parameters():
        nn.init.normal_(p)
    before = {n: p.detach().clone() for n, p in net.named_parameters()}
    max_norm_(net, limit)
    for name, after in net.named_parameters():
        if name.endswith("bias"):
            assert torch.equal(after, before[name])
            continue
        for new, old in zip(after, before[name], strict=True):
            norm = float(old.pow(2).sum() ** 0.5)
            expected = old if norm <= limit else old / norm * limit
            torch.testing.assert_close(new, expected)
            assert norm > limit or torch.equal(new, old)


def test_max_norm_keeps_zero_rows_and_refuses_a_bad_limit() -> None:
    layer = nn.Linear(3, 2)
    nn.init.zeros_(layer.weight)
    max_norm_(layer, 1.0)
    assert torch.equal(layer.weight, torch.zeros(2, 3))
    with pytest.raises(ConfigError, match=r"\b0\b"):
        max_norm_(layer, 0.0)
