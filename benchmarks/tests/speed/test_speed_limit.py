"""The time allowed, measured on a network that waits."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
from rich.console import Console

from residapt.errors import TrainingError
from residapt_bench.speed import limit
from residapt_bench.speed.limit import LimitRecord, Waiting, limit_table, measure_limit, run_limit
from support.cli import invoke


def record(minutes: float, seconds: float) -> LimitRecord:
    steps = {"source training": 30, "adaptation": 20}
    usage = {"seconds": seconds, "processor_seconds": 1.0, "others": 1.0, "peak_memory_mb": 9}
    environment = {"residapt": "0", "torch": "0", "python": "0"}
    return LimitRecord.parse(
        {
            "minutes": minutes,
            "planned": steps,
            "taken": steps,
            "parts": {},
            "usage": usage,
            "environment": environment,
        }
    )


def test_the_network_waits() -> None:
    begin = time.perf_counter()
    assert Waiting(3)(torch.zeros(5, 1, 28, 28)).shape == (5, 3)
    assert time.perf_counter() - begin >= limit.CALL + 5 * limit.IMAGE


def test_a_run_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "IMAGES", 60)
    found = measure_limit(1.0, "lenet", ("--set", "pretrain.steps=1", "--steps", "2"))
    assert found.planned == found.taken == {"source training": 1, "adaptation": 2}
    assert found.share == found.usage.seconds / 60
    assert 0 < sum(found.parts.values()) < found.usage.seconds


def test_a_run_that_fails_shows_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "IMAGES", 20)
    with pytest.raises(TrainingError, match="no setting 'nonsense'"):
        measure_limit(1.0, options=("--set", "nonsense=1"))


def test_each_number_of_minutes_is_measured_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "measure_limit", lambda minutes: record(minutes, 66.0 * minutes))
    out = tmp_path / "limit.jsonl"
    code, text = invoke("bench", "speed", "limit", "--case", "5", "--case", "10", "-o", str(out))
    assert code == 0, text
    assert [LimitRecord.model_validate_json(line).minutes for line in out.read_text().splitlines()] == [5.0, 10.0]
    assert [one.minutes for one in run_limit((), None)] == list(limit.MINUTES)
    code, text = invoke("bench", "speed", "limit", "--case", "lenet")
    assert code == 2


@pytest.mark.parametrize(("seconds", "kept"), [(541.0, True), (659.0, True), (539.0, False), (661.0, False)])
def test_the_table_says_what_was_missed(seconds: float, kept: bool) -> None:
    console = Console(record=True, width=200)
    console.print(limit_table([record(10.0, seconds)]))
    assert ("missed" not in console.export_text()) is kept
