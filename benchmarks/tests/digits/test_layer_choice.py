from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from residapt.errors import ConfigError
from residapt.methods import MethodConfig, TwoStreamConfig, build_method
from residapt.models import LeNet
from residapt_bench.digits.layer_choice import choose_layers, layer_combinations, stream_mmd
from support.tiny_networks import TinyMLP, mlp_batch


def test_lenet_has_sixteen_combinations_from_none_to_all():
    found = layer_combinations(LeNet())
    assert len(found) == len(set(found)) == 16
    assert found[0] == ()
    assert found[-1] == ("conv1", "conv2", "full3", "full4")


def test_every_combination_is_a_setting():
    for layers in layer_combinations(TinyMLP()):
        config = MethodConfig(two_stream=TwoStreamConfig(layers=layers))
        method = build_method("two_stream", TinyMLP(), config, example=mlp_batch().source)
        assert set(method.streams.separate_layers) == set(layers)


def test_too_many_layers_are_refused():
    deep = nn.Sequential(*[nn.Linear(2, 2) for _ in range(13)])
    with pytest.raises(ConfigError, match=r"\b13\b.*\b8192\b"):
        layer_combinations(deep)


def test_stream_mmd_by_hand():
    torch.manual_seed(0)
    source, target = torch.randn(7, 3, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64) + 0.5
    p_s, p_t = source.softmax(1).tolist(), target.softmax(1).tolist()

    def mean(us, vs):
        kernel = [math.exp(-sum((a - b) ** 2 for a, b in zip(u, v, strict=True))) for u in us for v in vs]
        return sum(kernel) / len(kernel)

    expected = mean(p_s, p_s) + mean(p_t, p_t) - 2 * mean(p_s, p_t)
    assert stream_mmd(source, target) == pytest.approx(expected, rel=1e-9)


def test_the_lowest_value_wins_and_ties_go_to_fewer_layers():
    assert choose_layers({(): 0.3, ("a",): 0.1, ("a", "b"): 0.2}) == ("a",)
    assert choose_layers({("a", "b"): 0.1, ("b",): 0.1, ("a",): 0.1}) == ("a",)
    with pytest.raises(ConfigError):
        choose_layers({})
