"""``residapt doctor`` says what is there, and notices what is broken."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import residapt.run
from residapt import doctor
from residapt.config import read_toml
from residapt.doctor import EXTRAS, PACKAGES, examine
from support.cli import invoke


def test_the_self_test_passes_here() -> None:
    found = examine()
    assert found.problems == ()
    assert [one.device for one in found.tests] == list(found.devices)
    assert all(one.passed and one.seconds > 0 for one in found.tests)
    assert found.packages["torch"] == torch.__version__.partition("+")[0]


def test_the_self_test_takes_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    before, during = torch.get_num_threads(), []
    monkeypatch.setattr(doctor, "_adapt_small", lambda device: during.append(torch.get_num_threads()) or "")
    torch.set_num_threads(2)
    try:
        assert examine().problems == ()
        assert (during, torch.get_num_threads()) == ([1] * len(examine(test=False).devices), 2)
    finally:
        torch.set_num_threads(before)


def test_json_has_everything() -> None:
    code, text = invoke("doctor", "--json", "--no-test")
    assert code == 0
    found = json.loads(text)
    assert set(found["packages"]) == set(PACKAGES)
    assert set(found["extras"]) == set(EXTRAS)
    assert found["tests"] == []


def test_a_network_that_learns_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = residapt.run.adapt

    def forgetful(*args: Any, **settings: Any) -> residapt.AdaptedRun:
        run = real(*args, **settings)
        for parameter in run.streams.parameters():
            torch.nn.init.zeros_(parameter)
        return run

    monkeypatch.setattr("residapt.run.adapt", forgetful)
    (one,) = examine().tests
    assert not one.passed
    assert "50 %" in one.problem


def test_a_torchvision_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    code, text = invoke("doctor")
    assert code == 1
    assert "torchvision cannot be used" in text
    assert "Everything works" not in text


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PACKAGES", ("torch", "no-such-package"))
    monkeypatch.setattr(doctor, "EXTRAS", {"timm": ("timm",), "moon": ("no_such_module",)})
    found = examine(test=False)
    assert found.packages["no-such-package"] is None
    assert not found.extras["moon"]
    assert len(found.problems) == 1
    code, text = invoke("doctor", "--no-test")
    assert code == 1
    assert "residapt[moon]" in text


def test_every_extra_is_one_of_the_package() -> None:
    project = read_toml(Path(__file__).parents[2] / "pyproject.toml")["project"]
    offered = set(project["optional-dependencies"])
    assert set(EXTRAS) <= offered
    assert offered - set(EXTRAS) == {"peft", "docs", "test", "dev"}
