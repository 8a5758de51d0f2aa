"""The examples run, and the library's call and the loop of one's own do the same kind of thing."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["adapt_tensors", "own_loop"])
def test_an_example_runs_and_its_network_has_learned(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    score = example(name).main(source_steps=40, steps=10)
    assert 25 < score <= 100  # guessing gives 10
    assert "source network" in capsys.readouterr().out
