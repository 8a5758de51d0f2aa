"""Suggested against random labels: one pair through all three runs, records that are not run twice, the table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from residapt_bench.proving_ground import suggest as experiment
from residapt_bench.proving_ground.library import ConfigError
from residapt_bench.proving_ground.pair import Rendered, Samples
from residapt_bench.proving_ground.registry import ALL_PAIRS, PAIRS
from residapt_bench.proving_ground.store import load
from residapt_bench.proving_ground.suggest import (
    SuggestRecord,
    read_suggest_records,
    run_missing,
    run_pair,
    suggest_table,
)

RECORD = {"choice": "mixed", "labels": 50, "steps": [9, 4], "source": 50.0, "unlabelled": 60.0, "scored": 9}
STAMP = {
    "wrong": [20, 9],
    "classes": [9, 8],
    "pair_sha256": "",
    "environment": {"residapt": "0", "torch": "0", "python": "0"},
}


def record(task: str, seed: int, suggested: float, random: float) -> SuggestRecord:
    return SuggestRecord.parse(
        {**RECORD, **STAMP, "task": task, "seed": seed, "suggested": suggested, "random": random}, where="test"
    )


def test_the_pairs_are_of_three_kinds() -> None:
    assert len({PAIRS[name].kind for name in experiment.TASKS}) == 3


def made(_place: object, seed: int) -> Rendered:
    """Two classes of noisy vectors; half of the target is shifted so far that the source network is wrong there."""
    generator = torch.Generator().manual_seed(seed)

    def part(n: int, shift: float) -> Samples:
        labels = torch.arange(n) % 2
        x = 0.3 * torch.randn(n, 4, generator=generator)
        x[:, 0] += labels + shift * (torch.arange(n) % 4 < 2)
        return Samples(x, labels)

    return Rendered(source=part(80, 0.0), target=part(60, 1.0), test=part(40, 1.0), classes=("a", "b"))


@pytest.mark.parametrize("transductive", [False, True])
def test_three_runs_make_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transductive: bool) -> None:
    def make(place: object, seed: int) -> Rendered:
        return replace(made(place, seed), **({"test": None} if transductive else {}))

    spec = replace(PAIRS["series-drift"], make=make, network="mlp", reads=(), transductive=transductive)
    monkeypatch.setitem(ALL_PAIRS, "small", replace(spec, name="small"))
    found = run_pair("small", 1, tmp_path, tmp_path, labels=6, steps=(20, 3))
    assert (found.task, found.seed, found.labels, found.steps) == ("small", 1, 6, (20, 3))
    assert found.pair_sha256 == load("small", tmp_path, tmp_path).checksum
    assert found.scored in range(48, 55) if transductive else found.scored == 40, "of 60, without both times 6"
    for percent in (found.source, found.unlabelled, found.suggested, found.random):
        right = percent * found.scored / 100
        assert right == pytest.approx(round(right), abs=1e-3)
    assert found.wrong[0] <= 6
    assert found.classes[0] <= 2


def test_only_what_is_missing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, called = tmp_path / "suggest.jsonl", []

    def run(name: str, seed: int, root: Path, cache: Path) -> SuggestRecord:
        called.append((name, seed))
        return record(name, seed, 70.0, 60.0)

    monkeypatch.setattr(experiment, "run_pair", run)
    list(run_missing(["x"], [0], out, tmp_path, tmp_path))
    list(run_missing(["x", "y"], [0, 1], out, tmp_path, tmp_path))
    assert called == [("x", 0), ("y", 0), ("x", 1), ("y", 1)]
    assert len(read_suggest_records(out)) == 4


def test_the_table_has_means_and_the_paired_gain() -> None:
    gains = [2.0, 4.0, 3.0]
    table = suggest_table([record("x", seed, 70.0 + gain, 70.0) for seed, gain in enumerate(gains)])
    # t quantile of 2 degrees of freedom, 4.3027, times 1 / sqrt(3)
    assert "| mixed | `x` | 0, 1, 2 | 50.0 | 60.0 | 70.0 | 73.0 | +3.0 (+0.5 to +5.5), more in 3 of 3 |" in table
    with pytest.raises(ConfigError):
        suggest_table([])
