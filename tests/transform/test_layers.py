from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch import nn

from residapt.errors import ModelError
from residapt.models import LeNet
from residapt.streams import TwoStream
from residapt.transform import TransformConfig, select_layers

LENET = ["conv1", "conv2", "full3", "full4"]


def chosen(model: nn.Module, **settings: Any) -> list[str]:
    return [layer.name for layer in select_layers(model, TransformConfig.parse(settings))]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, LENET),
        ({"include": ["conv*"]}, LENET[:2]),
        ({"exclude": ["full4"]}, LENET[:3]),
        ({"include": ["conv*", "full3"], "exclude": ["*1"]}, ["conv2", "full3"]),
        ({"features": "full3"}, LENET[:3]),
        ({"features": "relu3"}, LENET[:3]),
        ({"features": "pool1"}, LENET[:1]),
        ({"bias": "shared"}, LENET),
        ({"include": ["conv2"], "bias": "separate"}, ["conv2", "conv2.bias"]),
    ],
)
def test_patterns_choose_layers(settings: dict[str, Any], expected: list[str]) -> None:
    assert chosen(LeNet(), **settings) == expected


def test_features_inside_a_block_keep_the_whole_block_before_it(nets: Callable[..., Any]) -> None:
    model = nets("transformer").model
    names = chosen(model, features="encoder.layers.0")
    assert "embed" in names
    assert "encoder.layers.0.self_attn.in_proj.q" in names
    assert "encoder.layers.0.linear2" in names
    assert not any(name.startswith("encoder.layers.1") or name == "head" for name in names)


def test_ranks_by_pattern_first_match_counts() -> None:
    streams = TwoStream(LeNet(), left_rank=4, right_rank=5, ranks={"conv1": (1, 2), "conv*": (3, 3), "full4": (0, 7)})
    assert streams.ranks() == {"conv1": (1, 2), "conv2": (3, 3), "full3": (4, 5), "full4": (0, 0)}


def test_a_separate_bias_has_the_ranks_of_its_layer() -> None:
    streams = TwoStream(LeNet(), bias="separate", left_rank=4, right_rank=5, ranks={"conv1": (0, 0), "full*": (2, 3)})
    ranks = streams.ranks()
    assert ranks["conv1"] == ranks["conv1.bias"] == (0, 0)
    assert ranks["full3"] == ranks["full3.bias"] == (2, 3)
    assert ranks["conv2"] == ranks["conv2.bias"] == (4, 5)


def test_ranks_at_the_start_may_exceed_the_size_of_a_layer() -> None:
    assert set(TwoStream(LeNet()).ranks().values()) == {(32, 32)}


def stored(streams: TwoStream) -> int:
    return sum(parameter.numel() for parameter in streams.transforms.parameters())


def test_parameter_counts_of_lenet() -> None:
    """Method notes 4.4: the paper's formula on the dense [W b], and what the block-diagonal form stores."""
    model = LeNet()
    assert sum(parameter.numel() for parameter in model.parameters()) == 431_080
    sizes = [(20, 26), (50, 501), (500, 801), (10, 501)]
    assert sum(2 * (N * 32 + C * 32) + 32 * 32 for C, N in sizes) == 158_272
    assert stored(TwoStream(LeNet(), left_rank=32, right_rank=32)) == 158_152
    assert stored(TwoStream(LeNet(), left_rank=32, right_rank=31)) == 154_374


def test_parameter_count_of_the_vector_form() -> None:
    streams = TwoStream(LeNet(image_size=16), form="vector", left_rank=2)
    sizes = [(20, 26), (50, 501), (500, 51), (10, 501)]
    assert stored(streams) == sum((2 * N * C + 1) * 2 for C, N in sizes)


@pytest.mark.parametrize("setting", ["include", "exclude", "ranks"])
def test_a_pattern_that_matches_nothing_is_named(setting: str) -> None:
    value = {"conf1": (1, 1)} if setting == "ranks" else ["conf1"]
    with pytest.raises(ModelError, match=rf"transform\.{setting}.*'conf1'.*\b4\b.*conv1"):
        chosen(LeNet(), **{setting: value})


def test_unknown_features_are_named() -> None:
    with pytest.raises(ModelError, match=r"features='full33'.*LeNet.*full3"):
        chosen(LeNet(), features="full33")


def test_a_network_without_layers_is_refused(nets: Callable[..., Any]) -> None:
    with pytest.raises(ModelError, match=r"Mean.*Linear.*method='dann'"):
        TwoStream(nets("none").model)


def test_settings_that_leave_no_layer_are_refused() -> None:
    with pytest.raises(ModelError, match=r"include=.*exclude=.*features='conv1'"):
        chosen(LeNet(), include=["full*"], features="conv1")
