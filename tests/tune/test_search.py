"""Expressions of a search space: what they mean, and which are errors."""

from __future__ import annotations

import pytest

from residapt.config import Config
from residapt.errors import ConfigError
from residapt.tune.search import NOT_SEARCHED, PRETRAIN, parse_search, shares_source, with_values

GIVEN = Config.parse({"method": "rpt", "recipe": "paper"})


@pytest.mark.parametrize(
    ("text", "kind", "examples"),
    [
        ("discrepancy.weight=log:0.1..3", "float", [0.1, 3.0]),
        ("train.network.lr=log:1e-5..1e-3", "float", [1e-5, 1e-3]),
        ("stream_weight=range:0..2", "float", [0.0, 2.0]),
        ("transform.left_rank=range:0..32", "int", [0, 32]),
        ("train.batch_size=log:8..64", "int", [8, 64]),
        ("train.clip=range:0.5..2", "float", [0.5, 2.0]),
        ("transform.left_rank=choice:8,16,32", "choice", [8, 16, 32]),
        ("method=choice:rpt,dann", "choice", ["rpt", "dann"]),
        ("discrepancy.normalise=choice:true,false", "choice", [True, False]),
        ('transform.include=choice:["conv*"],["*"]', "choice", [["conv*"], ["*"]]),
        ("transform.ranks=choice:{conv1=[8,8]},{}", "choice", [{"conv1": [8, 8]}, {}]),
    ],
)
def test_expressions(text: str, kind: str, examples: list[object]) -> None:
    (dimension,) = parse_search([text], GIVEN)
    assert dimension.kind == kind
    found = dimension.examples()
    assert found == examples
    assert [type(value) for value in found] == [type(value) for value in examples]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("discrepancy.weight", "KEY=log"),
        ("=log:1..2", "KEY=log"),
        ("discrepancy.weight=0.5", "KEY=log"),
        ("discrepancy.weight=loguniform:1..2", "KEY=log"),
        ("discrepancy.wieght=log:0.1..3", "'discrepancy.weight'"),
        ("discrepency.weight=choice:1,2", "'discrepancy"),
        ("discrepancy=log:0.1..3", "discrepancy=choice"),
        ("discrepancy=choice:1,2", "discrepancy = 1 "),
        ("discrepancy.weight=log:0..3", "got 0. Use range:0..3"),
        ("discrepancy.weight=log:3..0.1", "got 3 and 0.1"),
        ("discrepancy.weight=range:1..1", "got 1 and 1"),
        ("discrepancy.weight=range:1", "'1' is not"),
        ("discrepancy.weight=range:a..b", "'a..b' is not"),
        ("discrepancy.weight=range:0..inf", "'0..inf' is not"),
        ("discrepancy.weight=range:-1..1", "discrepancy.weight = -1.0 "),
        ("discrepancy.weight=choice:", "two different values"),
        ("discrepancy.weight=choice:1,1", "two different values"),
        ("discrepancy.weight=choice:1,much", "discrepancy.weight = 'much' "),
        ("transform.left_rank=range:1.5..8", "got '1.5..8'"),
        ("discrepancy.normalise=range:0..1", "discrepancy.normalise=choice"),
        ("method=log:1..2", "method=choice"),
        *((f"{key}=choice:a,b", NOT_SEARCHED[key]) for key in ("data.source", "data.evaluate", "force", "device")),
    ],
)
def test_bad_expressions(text: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_search([text], GIVEN)
    assert f"--search {text!r}" in str(caught.value)
    assert value in str(caught.value).replace(repr(text), "")


def test_nothing_and_the_same_twice() -> None:
    with pytest.raises(ConfigError, match="--search"):
        parse_search([], GIVEN)
    with pytest.raises(ConfigError, match=r"range:0\.\.2.*'stream_weight'"):
        parse_search(["stream_weight=range:0..1", "stream_weight=range:0..2"], GIVEN)


def test_settings_at_their_defaults_stay_unset() -> None:
    changed = with_values(GIVEN, {"train.network.lr": 0.1})
    assert changed.train.model_fields_set == {"network"}
    assert changed.model_fields_set == {"method", "method_config", "recipe", "train"}


@pytest.mark.parametrize(
    ("text", "shared"),
    [("stream_weight=range:0..1", True), (f"{PRETRAIN}.lr=log:1e-4..1e-2", False), ("seed=choice:1,2", False)],
)
def test_the_source_network_is_shared_where_nothing_changes_it(text: str, shared: bool) -> None:
    assert shares_source(parse_search([text], GIVEN)) is shared
