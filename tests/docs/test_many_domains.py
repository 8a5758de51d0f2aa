"""The page docs/guide/many-domains.md: its commands and its Python code work as they stand."""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path

import pytest

from residapt.deploy import load_run
from residapt.storage import read_config
from residapt.storage.base_network import base_hashes
from support.cli import invoke

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "many-domains.md").read_text(encoding="utf-8")
SMALL = shlex.split("--steps 3 --device cpu --force --set pretrain.steps=10 --set pretrain.allow_chance=true")
SMALL += shlex.split("--set train.batch_size=16 --set rank.weight=0")
"""Options for a run of seconds."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.S | re.M)


def test_the_page_works(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("gate", "roof", "harbour"):
        Path(name).symlink_to(digits / "written")
    Path("photos").symlink_to(digits / "printed")
    lines = [line for text in blocks("") for line in text.splitlines() if line.startswith("residapt ")]
    commands = [shlex.split(line)[1:] for line in lines]
    assert [command[0] for command in commands] == ["adapt", "adapt", "adapt", "predict"]
    for command in commands[:3]:
        code, text = invoke(*command, *SMALL)
        assert code == 0, text
        told = " ".join(text.split())
        assert ("starts from" in told) == ("--base" in command)
    for place, method in (("gate", "rpt"), ("roof", "rpt"), ("harbour", "source_free")):
        config = read_config(Path("sites") / place / "adapter")
        assert (config.method, config.carried) == (method, ())
    first, others = (
        "sites/gate/source.safetensors",
        ("sites/roof/source.safetensors", "sites/harbour/source.safetensors"),
    )
    assert all(base_hashes(load_run(first).model) == base_hashes(load_run(other).model) for other in others)
    for place in ("gate", "roof", "harbour", "source"):
        source = next(path for path in sorted((digits / "written").rglob("*.png")))
        (Path("images") / place / "monday").mkdir(parents=True)
        (Path("images") / place / "monday" / "1.png").write_bytes(source.read_bytes())
    code, text = invoke(*commands[3], "--device", "cpu")
    assert code == 0, text
    with Path("predictions.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 4
    (code,) = blocks("python")
    names: dict[str, object] = {}
    exec(code, names)
    assert list(names["domains"]) == ["roof", "harbour"]  # type: ignore[call-overload]
