from __future__ import annotations

from pathlib import Path

import pytest

from residapt.config import Config, describe_config, load_config, parse_override, write_config
from residapt.errors import ConfigError
from residapt.methods.config import MethodConfig
from residapt.methods.recipes import RECIPES
from residapt.rank import RankConfig
from residapt.settings import merged


def test_written_configuration_reads_back_the_same(tmp_path: Path):
    config = load_config(None, ["rank.weight=0.25", "transform.exclude=['fc']", "transform.ranks={conv1=[4, 5]}"])
    write_config(config, tmp_path / "config.toml")
    assert load_config(tmp_path / "config.toml") == config


def test_overrides_win_over_the_file_and_the_file_over_the_base(tmp_path: Path):
    path = tmp_path / "c.toml"
    path.write_text("[rank]\nweight = 2.0\nevery = 7\n")
    config = load_config(path, ["rank.weight=3"], base={"rank": {"every": 5, "step": 0.5}})
    assert (config.method_config.rank.weight, config.method_config.rank.every, config.method_config.rank.step) == (
        3.0,
        7,
        0.5,
    )


def test_options_are_values_and_stand_between_file_and_overrides(tmp_path: Path):
    """A folder may be called 1 or true, or look like TOML: it stays the text that it is."""
    path = tmp_path / "c.toml"
    path.write_text("seed = 1\n[data]\nsource = 'a'\n[rank]\nevery = 7\n")
    options = {"data.source": "1", "data.target": '[x] = "', "rank.every": 8, "seed": 2}
    config = load_config(path, ["seed=3"], options=options)
    assert (config.data.source, config.data.target) == ("1", '[x] = "')
    assert (config.method_config.rank.every, config.seed) == (8, 3)


def test_settings_of_the_method_are_flat_for_users_and_a_group_in_code():
    given = {"rank": {"weight": 0.5}, "few_weight": 2.0, "method": "dann", "recipe": "paper"}
    config = Config.parse(given)
    assert config.method_config == MethodConfig(rank=RankConfig(weight=0.5), few_weight=2.0)
    assert config.model_dump(exclude_unset=True) == given
    assert Config(method_config=config.method_config, method="dann", recipe="paper") == config
    keys = [key for key, _, _ in describe_config(config)]
    assert {"rank.weight", "few_weight", "pretrain.steps", "method"} <= set(keys)
    assert not any(key.startswith("method_config") for key in keys)
    assert config.is_set("rank", "weight")
    assert not config.is_set("rank", "every")
    changed = config.with_group("rank", every=3).with_group("train", steps=4)
    assert (changed.method_config.rank.every, changed.method_config.rank.weight, changed.train.steps) == (3, 0.5, 4)
    assert config.method_config.rank.every == RankConfig().every


def test_a_recipe_is_a_set_of_settings_that_explicit_ones_override(tmp_path: Path):
    plus = RECIPES["plus"]
    config = load_config(None, ["recipe=plus", "information.weight=0.7", "model.spec=dtn"])
    assert config.method_config.prior.kind == plus["prior"]["kind"]
    assert (config.method_config.information.weight, config.model.spec) == (0.7, "dtn")
    write_config(config, tmp_path / "config.toml")
    assert load_config(tmp_path / "config.toml") == config
    assert Config.parse({"recipe": "default"}) == Config.parse({}) == Config()
    assert Config.parse({"recipe": "paper"}).method_config == MethodConfig()
    for name, settings in RECIPES.items():
        assert Config.parse({"recipe": name, **settings}) == Config.parse({"recipe": name}), (
            "it is a valid configuration"
        )
    with pytest.raises(ConfigError) as error:
        load_config(None, ["recipe=minus"])
    assert all(word in str(error.value) for word in ("recipe", "minus", *RECIPES))


@pytest.mark.parametrize("given", ["conv1,layer1", ["conv1", "layer1"]])
def test_frozen_stages_have_one_home_and_reach_the_transforms(given: object, tmp_path: Path):
    config = Config.parse({"freeze": given, "transform": {"left_rank": 3}})
    assert config.freeze == config.method_config.transform.freeze == ("conv1", "layer1")
    assert "freeze" not in config.model_dump()["transform"]
    assert "transform.freeze" not in [key for key, _, _ in describe_config(config)]
    write_config(config, tmp_path / "config.toml")
    assert load_config(tmp_path / "config.toml") == config


def test_a_frozen_base_is_a_source_network_that_is_not_trained(tmp_path: Path):
    config = Config.parse({"freeze": "base"})
    assert not config.method_config.train_source
    assert config.method_config.transform.freeze == ()
    write_config(config, tmp_path / "config.toml")
    assert load_config(tmp_path / "config.toml") == config
    for word in ("auto", "none"):
        assert Config.parse({"freeze": word}).method_config == Config().method_config


def test_a_mistake_in_a_file_is_reported_with_the_file(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text("[train]\nstep = 4\n")
    with pytest.raises(ConfigError) as error:
        load_config(path, ["seed=1"])
    assert all(word in str(error.value) for word in (str(path), "train.step"))


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
        ("freeze=3", ["freeze = 3", "auto, none, base"]),
        ("freeze=[1]", ["freeze = [1]", "auto, none, base"]),
        ("freeze=[]", ["freeze = []", "auto, none, base"]),
        ("transform.freeze=['conv1']", ["transform.freeze", "Set freeze"]),
        ("train.seed=3", ["train.seed", "Set seed"]),
        ("discrepancy.seed=3", ["discrepancy.seed", "Set seed"]),
        ("rank", ["key=value"]),
        ("=3", ["key=value"]),
    ],
)
def test_bad_settings_are_named_with_the_value_and_a_remedy(text: str, words: list[str]):
    with pytest.raises(ConfigError) as error:
        load_config(None, [text])
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("trains", [True, False])
def test_whether_the_source_is_trained_is_said_by_freeze_alone(trains: bool):
    with pytest.raises(ConfigError, match=r"train_source .*freeze"):
        Config.parse({"train_source": trains})
    assert "train_source" not in Config().model_dump()
    assert "train_source" not in [key for key, _, _ in describe_config(Config())]


def test_a_broken_file_is_named(tmp_path: Path):
    path = tmp_path / "c.toml"
    path.write_text("[rank\nweight = 2")
    with pytest.raises(ConfigError, match=r"c\.toml"):
        load_config(path)
    with pytest.raises(ConfigError, match=r"absent\.toml"):
        load_config(tmp_path / "absent.toml")


def test_every_setting_is_explained():
    missing = [key for key, _, text in describe_config(Config()) if len(text) < 8]
    assert missing == []


def test_words_need_no_quotes():
    assert parse_override("method=dann") == {"method": "dann"}
    assert parse_override("a.b.c=1e-3") == {"a": {"b": {"c": 1e-3}}}
