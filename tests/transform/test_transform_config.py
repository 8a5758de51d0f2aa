from __future__ import annotations

import pytest
import torch

from residapt.errors import ConfigError
from residapt.models import LeNet
from residapt.streams import TwoStream
from residapt.transform import TransformConfig
from residapt.transform.config import resolve_nonlinearity


@pytest.mark.parametrize("name", ["tanh", "relu", "sin", "leaky_relu"])
def test_functions_that_vanish_at_zero_are_accepted(name: str) -> None:
    assert float(resolve_nonlinearity(name)(torch.zeros(1))) == 0.0
    assert TransformConfig.parse({"nonlinearity": name}).nonlinearity == name


@pytest.mark.parametrize(("name", "value"), [("sigmoid", "0.5"), ("cos", "1"), ("softplus", "0.693")])
def test_functions_that_do_not_are_refused_with_the_reason(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TransformConfig.parse({"nonlinearity": name}, where="transform")
    message = str(caught.value)
    for words in ("transform", "nonlinearity", f"{name}(0) = {value}", "must be 0", "use tanh or relu"):
        assert words in message


@pytest.mark.parametrize("name", ["tanhh", "load", "nn", "sum", "matmul", "__name__", ""])
def test_what_is_no_elementwise_function_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="nonlinearity"):
        TransformConfig.parse({"nonlinearity": name})


@pytest.mark.parametrize("name", ["left_rank", "right_rank", "bias_rank"])
def test_a_negative_rank_is_refused(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TwoStream(LeNet(), **{name: -3})
    for words in ("TwoStream", name, "-3", "must be 0 or more", "0 shares the layer"):
        assert words in str(caught.value)


def test_negative_ranks_by_pattern_are_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        TwoStream(LeNet(), ranks={"conv1": (4, -1)})
    for words in ("conv1", "[4, -1]", "0 or more", "0 shares the layer"):
        assert words in str(caught.value)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_the_energy_must_be_positive_and_finite(value: float) -> None:
    with pytest.raises(ConfigError, match="energy"):
        TransformConfig.parse({"energy": value})


def test_an_unknown_setting_is_named_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"'left_ranks'.*'left_rank'"):
        TwoStream(LeNet(), left_ranks=3)


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        TransformConfig.parse({"left_rank": "many", "energy": -1, "colour": "red"})
    assert len(str(caught.value).splitlines()) == 3


def test_config_and_settings_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="left_rank"):
        TwoStream(LeNet(), TransformConfig(), left_rank=3)


def test_a_setting_cannot_be_changed_later() -> None:
    with pytest.raises(ValueError):
        TransformConfig().left_rank = 3  # type: ignore[misc]
