"""``residapt adapt --recipe plus``: what is assumed of the target is in the record, the report and the network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from residapt.config import load_config
from residapt.deploy.load_run import load_run
from residapt.models.standardise import is_standardised
from residapt.storage.summary import read_summary
from support.cli import invoke
from support.digit_folders import QUICK, Run

SOON = ("--set", "prior.warmup=0")


@pytest.fixture(scope="module")
def plus(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("plus") / "run"
    code, text = invoke(
        *("adapt", "-s", str(digits / "printed"), "-t", str(digits / "written"), "-o", str(out)),
        *("--recipe", "plus", "--set", "model.standardise=true", "--force", *QUICK, *SOON),
    )
    assert code == 0, text
    return out


def test_the_prior_is_in_metrics_summary_and_report(plus: Path) -> None:
    lines = [json.loads(line) for line in (plus / "metrics.jsonl").read_text().splitlines()]
    adapting = [line["values"] for line in lines if line["kind"] == "step" and line["stage"] == "adapt"]
    assert all(0 <= values["prior_distance"] <= 1 and "information" in values for values in adapting)
    frequencies = read_summary(plus / "summary.json").frequencies
    assert sum(frequencies["target_assumed"]) == pytest.approx(1.0, abs=1e-3)
    assert len(frequencies["target_assumed"]) == 10
    page = (plus / "report.html").read_text()
    assert "target, assumed in training" in page
    assert "weighted to the frequencies that are assumed" in page


def test_the_networks_that_are_handed_out_standardise_their_input(plus: Path) -> None:
    config = load_config(plus / "config.toml")
    assert (config.recipe, config.model.standardise) == ("plus", True)
    for path in (plus, plus / "source.safetensors", plus / "adapter"):
        assert is_standardised(load_run(path).model), path


def test_a_base_goes_on_as_it_was_trained(plus: Path, finished: Run, digits: Path, tmp_path: Path) -> None:
    """With the recipe or without: what was trained with standardised images keeps them, and nothing else gets them."""
    bases = (
        (plus, True),
        (plus / "source.safetensors", True),
        (finished.path, False),
        (finished.path / "source.safetensors", False),
    )
    for number, (base, expected) in enumerate(bases):
        for recipe in ("paper", "plus"):
            out = tmp_path / f"{number}{recipe}"
            code, text = invoke(
                *("adapt", "-s", str(digits / "printed"), "-t", str(digits / "written"), "-o", str(out)),
                *("--base", str(base), "--recipe", recipe, "--force", *QUICK, *SOON, "--steps", "4"),
            )
            assert code == 0, text
            assert load_config(out / "config.toml").model.standardise is expected, (base, recipe)
            assert is_standardised(load_run(out).model) is expected


def test_averaged_weights_are_handed_out_with_an_adapter(digits: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, text = invoke(
        *("adapt", "-s", str(digits / "printed"), "-t", str(digits / "written"), "-o", str(out)),
        *("--set", "average.decay=0.9", "--force", *QUICK),
    )
    assert code == 0, text
    whole, by_adapter = (load_run(path) for path in (out, out / "adapter"))
    size = whole.input.size
    pixels = torch.randint(256, (4, whole.input.channels, size, size), dtype=torch.uint8)
    torch.testing.assert_close(by_adapter.logits(pixels), whole.logits(pixels), atol=1e-4, rtol=1e-4)
    code, text = invoke("predict", str(out), str(digits / "written"), "-o", str(tmp_path / "p.csv"))
    assert code == 0, text
