"""What can be searched over, and what is refused."""

from __future__ import annotations

import pytest

from residapt.config import Config
from residapt.errors import ConfigError
from residapt.tune.search import parse_search, shares_source, with_values

GIVEN = Config.parse({"method": "rpt"})


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
        ("train_source=choice:true,false", "choice", [True, False]),
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
    ("text", "words"),
    [
        ("discrepancy.weight", "write it as KEY=log"),
        ("=log:1..2", "write it as KEY=log"),
        ("discrepancy.weight=0.5", "write it as KEY=log"),
        ("discrepancy.weight=loguniform:1..2", "write it as KEY=log"),
        ("discrepancy.wieght=log:0.1..3", "Did you mean 'discrepancy.weight'"),
        ("discrepency.weight=choice:1,2", "Did you mean 'discrepancy"),
        ("discrepancy=log:0.1..3", "no range"),
        ("discrepancy=choice:1,2", "discrepancy = 1 cannot be used"),
        ("discrepancy.weight=log:0..3", "log needs a range above 0, got 0"),
        ("discrepancy.weight=log:3..0.1", "from 3 to 0.1 is empty"),
        ("discrepancy.weight=range:1..1", "from 1 to 1 is empty"),
        ("discrepancy.weight=range:1", "no range of two numbers"),
        ("discrepancy.weight=range:a..b", "no range of two numbers"),
        ("discrepancy.weight=range:0..inf", "no range of two numbers"),
        ("discrepancy.weight=range:-1..1", "discrepancy.weight = -1.0 cannot be used"),
        ("discrepancy.weight=choice:", "nothing to choose from"),
        ("discrepancy.weight=choice:1,1", "nothing to choose from"),
        ("discrepancy.weight=choice:1,much", "discrepancy.weight = 'much' cannot be used"),
        ("transform.left_rank=range:1.5..8", "is a whole number"),
        ("train_source=range:0..1", "is not a number"),
        ("method=log:1..2", "is not a number"),
        ("data.evaluate=choice:a,b", "labels of the target are never used"),
        ("force=choice:true,false", "the guard"),
    ],
)
def test_refusals(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words.replace("[", r"\[")) as caught:
        parse_search([text], GIVEN)
    assert f"--search {text!r}" in str(caught.value)


def test_nothing_and_the_same_twice() -> None:
    with pytest.raises(ConfigError, match="nothing to search over"):
        parse_search([], GIVEN)
    with pytest.raises(ConfigError, match="searched over already"):
        parse_search(["stream_weight=range:0..1", "stream_weight=range:0..2"], GIVEN)


def test_settings_that_nobody_has_set_stay_unset() -> None:
    changed = with_values(GIVEN, {"train.network.lr": 0.1})
    assert changed.train.model_fields_set == {"network"}
    assert changed.model_fields_set == {"method", "train"}


@pytest.mark.parametrize(
    ("text", "shared"),
    [("stream_weight=range:0..1", True), ("pretrain.lr=log:1e-4..1e-2", False), ("seed=choice:1,2", False)],
)
def test_the_source_network_is_shared_where_nothing_changes_it(text: str, shared: bool) -> None:
    assert shares_source(parse_search([text], GIVEN)) is shared
