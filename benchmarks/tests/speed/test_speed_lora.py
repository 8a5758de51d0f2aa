from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from residapt.errors import ConfigError
from residapt_bench.speed import lora as speed_lora
from residapt_bench.speed.lora import LoraCase, LoraRecord, lora_table, peft_module, rpt_parts, run_lora

TINY = LoraCase(size=2, rank=4, threads=1, small=True)
RECORD = LoraRecord(
    case={},
    seconds={"rpt": 0.3, "lora": 0.2},
    ratio=1.5,
    processor_ratio=1.4,
    memory={"rpt": 3 << 20, "lora": 2 << 20},
    memory_ratio=1.5,
    trained={"rpt": 9, "lora": 7},
    aim=1.2,
    rounds=3,
    peft="0",
)


def test_only_transforms_of_the_same_linear_layers_are_trained() -> None:
    pytest.importorskip("timm")
    parameters, forward = rpt_parts(TINY)
    images, _ = TINY.batch()
    forward(images).square().sum().backward()
    assert all(parameter.grad is not None for parameter in parameters)
    streams = forward.func
    assert all(parameter.grad is None for parameter in streams.model.parameters())
    assert set(streams.layers) == {
        f"blocks.{block}.{layer}" for block in range(2) for layer in ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2")
    }


def test_lora_has_the_same_layers() -> None:
    pytest.importorskip("peft")
    pytest.importorskip("timm")
    parameters, _ = speed_lora.lora_parts(TINY)
    assert len(parameters) == 2 * 2 * 4, "A and B of four layers in two blocks"
    record = speed_lora.measure_lora(TINY, rounds=1, memory=False)
    assert record.ratio == pytest.approx(record.seconds["rpt"] / record.seconds["lora"])
    assert record.memory_ratio is None


def test_without_peft_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "peft", None)
    with pytest.raises(ConfigError, match="peft"):
        peft_module()


def test_the_record_is_appended_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed_lora, "measure_lora", lambda case, rounds: RECORD)
    run_lora(TINY, 3, tmp_path / "r" / "lora.jsonl")
    assert json.loads((tmp_path / "r" / "lora.jsonl").read_text())["ratio"] == 1.5
    console = Console(width=120, record=True)
    console.print(lora_table(RECORD))
    text = console.export_text()
    assert "300.0" in text
    assert "1.500" in text
