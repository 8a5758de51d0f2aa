"""Results of commands as programs read them."""

from __future__ import annotations

import json
from pathlib import Path

from support.cli import invoke
from support.digit_folders import Run


def test_scores_and_inspection_as_json(finished: Run, digits: Path) -> None:
    code, text = invoke("eval", str(finished.path), str(digits / "scored"), "--json", "--quiet", "--device", "cpu")
    assert code == 0
    assert json.loads(text)["images"] == 60
    code, text = invoke("inspect", str(finished.path), "--json")
    assert code == 0
    assert {layer["name"] for layer in json.loads(text)["layers"]} >= {"conv1"}


def test_quiet_predictions_are_rows_alone(finished: Run, digits: Path) -> None:
    code, text = invoke("predict", str(finished.path), str(digits / "scored"), "--quiet", "--device", "cpu")
    assert code == 0
    assert len(text.strip().splitlines()) == 61
    code, text = invoke("predict", str(finished.path), str(digits / "scored"), "--device", "cpu")
    assert len(text.strip().splitlines()) == 62  # the next command is not quiet any more
