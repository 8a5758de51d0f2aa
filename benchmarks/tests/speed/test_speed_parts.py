"""The cost of the parts: every part runs, the plain step is the measure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from residapt.errors import ConfigError
from residapt_bench.speed import parts as speed_parts
from residapt_bench.speed.cases import SpeedCase


def tiny() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3))


def test_every_part_is_timed_against_the_plain_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = SpeedCase("tiny", tiny, (1, 8, 8), 4, 3, threads=1, rounds=1.0, aim=1.0, rank=2)
    monkeypatch.setattr(speed_parts, "find_case", lambda name: case)
    monkeypatch.setattr(speed_parts, "TOGETHER", 2)
    before = torch.get_num_threads()
    records = speed_parts.run_parts("tiny", "rpt", 2, tmp_path / "parts.jsonl")
    assert torch.get_num_threads() == before
    assert [record.part for record in records] == list(speed_parts.PARTS)
    assert records[0].ratio == 1.0
    assert all(record.milliseconds > 0 for record in records)
    lines = [json.loads(line) for line in (tmp_path / "parts.jsonl").read_text().splitlines()]
    assert {line["part"]: line["aim"] for line in lines}["prior, information"] == 1.03
    assert speed_parts.parts_table(records).row_count == len(records)


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(ConfigError, match="'rtp'"):
        speed_parts.run_parts("lenet", "rtp", 1)
