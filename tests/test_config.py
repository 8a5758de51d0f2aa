from __future__ import annotations

from pathlib import Path

import pytest

from residapt.config import Config, describe_config, load_config, parse_override, write_config
from residapt.errors import ConfigError
from residapt.settings import merged


def test_written_configuration_reads_back_the_same(tmp_path: Path):
    config = load_config(None, ["rank.weight=0.25", "transform.exclude=['fc']", "transform.ranks={conv1=[4, 5]}"])
    write_config(config, tmp_path / "config.toml")
    assert load_config(tmp_path / "config.toml") == config


def test_overrides_win_over_the_file_and_the_file_over_the_base(tmp_path: Path):
    path = tmp_path / "c.toml"
    path.write_text("[rank]\nweight = 2.0\nevery = 7\n")
    config = load_config(path, ["rank.weight=3"], base={"rank": {"every": 5, "step": 0.5}})
    assert (config.rank.weight, config.rank.every, config.rank.step) == (3.0, 7, 0.5)


def test_merging_goes_to_any_depth_and_changes_neither_side():
    first = {"a": {"b": {"c": 1, "d": 2}}, "e": 3}
    second = {"a": {"b": {"c": 4}}, "e": {"f": 5}}
    both = merged(first, second)
    assert both == {"a": {"b": {"c": 4, "d": 2}}, "e": {"f": 5}}
    both["a"]["b"]["c"] = both["e"]["f"] = 0
    assert first == {"a": {"b": {"c": 1, "d": 2}}, "e": 3}
    assert second == {"a": {"b": {"c": 4}}, "e": {"f": 5}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rank.wieght=1", ["rank.wieght", "Did you mean", "rank.weight"]),
        ("rank.weight=heavy", ["rank.weight", "heavy"]),
        ("rank.weight=-1", ["rank.weight", "-1"]),
        ("transform.left_rank=-3", ["transform.left_rank", "-3"]),
        ("transform.nonlinearity=sigmoid", ["sigmoid(0) = 0.5", "tanh"]),
        ("transform.nonlinearity=nonsense", ["nonsense", "tanh"]),
        ("transform.ranks={conv1=[-2, 3]}", ["conv1", "[-2, 3]"]),
        ("rank", ["key=value"]),
        ("=3", ["key=value"]),
    ],
)
def test_bad_settings_are_named_with_the_value_and_a_remedy(text: str, words: list[str]):
    with pytest.raises(ConfigError) as error:
        load_config(None, [text])
    for word in words:
        assert word in str(error.value)


def test_a_broken_file_is_named(tmp_path: Path):
    path = tmp_path / "c.toml"
    path.write_text("[rank\nweight = 2")
    with pytest.raises(ConfigError, match=r"c\.toml"):
        load_config(path)
    with pytest.raises(ConfigError, match="does not exist"):
        load_config(tmp_path / "absent.toml")


def test_every_setting_is_explained():
    missing = [key for key, _, text in describe_config(Config()) if len(text) < 8]
    assert missing == []


def test_words_need_no_quotes():
    assert parse_override("method=dann") == {"method": "dann"}
    assert parse_override("a.b.c=1e-3") == {"a": {"b": {"c": 1e-3}}}
