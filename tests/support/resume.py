"""Ends of a training, and runs that must be the same."""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch
from safetensors.torch import load_file

from residapt.train import Callback, Method


class Die(BaseException):
    """The end of a process, for a test."""


class Fall(Callback):
    """Ends training at a step without any goodbye, or by a signal to this process."""

    def __init__(self, step: int, number: int | None = None) -> None:
        self.step, self.number = step, number

    def on_step(self, method: Method, step: int) -> None:
        if step == self.step:
            if self.number is None:
                raise Die
            os.kill(os.getpid(), self.number)


def assert_same_run(one: Path, other: Path) -> None:
    for name in ("source.safetensors", "model.safetensors", "adapter/adapter_model.safetensors"):
        before, after = load_file(one / name), load_file(other / name)
        assert before.keys() == after.keys()
        for key, tensor in before.items():
            assert torch.equal(tensor, after[key]), (name, key)
    assert untimed(one) == untimed(other)
    first, second = (json.loads((path / "summary.json").read_text()) for path in (one, other))
    for summary in (first, second):
        del summary["seconds"]
    assert first == second


def untimed(run: Path) -> list[dict[str, object]]:
    read = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in read]


def folders(digits: Path) -> tuple[str, ...]:
    return ("-s", str(digits / "printed"), "-t", str(digits / "written"), "--evaluate", str(digits / "scored"))
