"""``residapt config``: all settings or some, nothing cut, in a narrow terminal as well."""

from __future__ import annotations

import json

import pytest

from residapt.config import describe_config, load_config
from support.cli import invoke

ROWS = list(describe_config(load_config()))


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_every_setting_is_shown_whole(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    code, text = invoke("config")
    assert code == 0
    lines = text.splitlines()
    for key, value, explanation in ROWS:
        assert f"{key} = {'(none)' if value is None else json.dumps(value)}" in lines
        assert f"    {' '.join(explanation.split())}" in lines
    assert len(lines) == 2 * len(ROWS)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rank", [key for key, _, _ in ROWS if key.startswith("rank.")]),
        ("train.network", ["train.network.lr"]),
        ("seed", ["seed"]),
        ("weight_dec", [key for key, _, _ in ROWS if "weight_dec" in key]),
    ],
)
def test_a_group_or_a_setting_alone(name: str, expected: list[str]) -> None:
    code, text = invoke("config", name, "--set", "rank.weight=0.25")
    assert code == 0
    assert [line.partition(" = ")[0] for line in text.splitlines()[::2]] == expected
    assert name != "rank" or "rank.weight = 0.25" in text


def test_a_name_that_is_no_setting() -> None:
    code, text = invoke("config", "rnak")
    assert code == 2
    assert "'rnak'" in text
    assert "rank" in text


@pytest.mark.parametrize("command", [(), ("adapt",), ("config",), ("accept",)])
def test_h_is_help(command: tuple[str, ...]) -> None:
    assert invoke(*command, "-h") == invoke(*command, "--help")
