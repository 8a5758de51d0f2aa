"""Ten thousand damaged files: the readers of adapters and checkpoints load them or say what is wrong, nothing else."""

from __future__ import annotations

import hashlib
import json
import random
import resource
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from torch import nn

from residapt.errors import ResidaptError
from residapt.storage import AdapterMetadata, load, save_pretrained
from residapt.storage.checkpoint import steps_in
from residapt.streams import TwoStream
from residapt.train.checkpoint import restore_checkpoint, save_checkpoint
from support.mutations import BYTES, Mutation, change_header, change_json
from support.tiny_run import tiny_trainer

COUNTS = [pytest.param(5000, marks=pytest.mark.slow), 250]
"""Of each reader: in the whole suite, and in a quick one."""
ALLOWED = 200_000_000
"""Bytes by which the process may grow: much less than the numbers in the damaged files ask for."""
ADAPTER = ("adapter_config.json", "adapter_model.safetensors")
CHECKPOINT = ("state.json", "state.safetensors", "manifest.json")


def put(file: Path, content: bytes) -> None:
    """A new file in the place of the old one: to cut a file short and fill it again makes the disk wait."""
    file.unlink()
    file.write_bytes(content)


class Fuzzed:
    """The files of a folder, one of which is damaged at a time and mended again."""

    def __init__(self, folder: Path, names: Sequence[str], sign: Callable[[Path], object], seed: int) -> None:
        self.folder, self.sign, self.draw = folder, sign, random.Random(seed)
        self.whole = {name: (folder / name).read_bytes() for name in names}
        self.outcomes: Counter[str] = Counter()

    def run(self, count: int, read: Callable[[], object]) -> None:
        """Damage and read, ``count`` times."""
        for number in range(count):
            told = self._damage()
            try:
                read()
                self.outcomes["loaded"] += 1
            except ResidaptError as error:
                self.outcomes["refused" if str(error) else "refused without a word"] += 1
            except Exception as error:
                raise AssertionError(f"mutation {number}, {told}: {type(error).__name__}: {error}") from error
            for name, content in self.whole.items():
                put(self.folder / name, content)
        assert not self.outcomes["refused without a word"]

    def _damage(self) -> str:
        name = self.draw.choice(list(self.whole))
        mutate: Mutation = self.draw.choice((*BYTES, *(change_json if name.endswith("json") else change_header,) * 3))
        put(self.folder / name, mutate(self.whole[name], self.draw))
        signed = name != CHECKPOINT[-1] and self.draw.random() < 0.8
        if signed:  # else the checksum alone would notice, and nothing behind it would be tried
            self.sign(self.folder)
        return f"{mutate.__name__} of {name}{', signed' if signed else ''}"


def memory() -> int:
    """Most bytes that this process has had in memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def sign_adapter(folder: Path) -> None:
    """Put the hash of the damaged weights into the configuration, where that can still be read."""
    file = folder / ADAPTER[0]
    try:
        values = json.loads(file.read_bytes())
    except ValueError:
        return
    if isinstance(values, dict) and isinstance(values.get("weights_sha256"), str):
        put(file, json.dumps(values | {"weights_sha256": digest(folder / ADAPTER[1])}).encode())


def sign_checkpoint(folder: Path) -> None:
    """A manifest that fits the damaged files."""
    files = {n: {"bytes": (folder / n).stat().st_size, "sha256": digest(folder / n)} for n in CHECKPOINT[:2]}
    put(folder / CHECKPOINT[2], json.dumps({"files": files}).encode())


@pytest.mark.parametrize("count", COUNTS)
def test_damaged_adapters(tmp_path: Path, count: int) -> None:
    network = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Linear(3, 2))
    streams = TwoStream(network, left_rank=2, right_rank=1)
    save_pretrained(
        streams, tmp_path / "a", metadata=AdapterMetadata(method="rpt", classes=("a", "b")), base="included"
    )
    fuzzed = Fuzzed(tmp_path / "a", ADAPTER, sign_adapter, seed=count)
    load(network, tmp_path / "a")
    before = memory()
    fuzzed.run(count, lambda: load(network, tmp_path / "a"))
    assert memory() - before < ALLOWED
    assert fuzzed.outcomes["refused"] > count / 2
    assert fuzzed.outcomes["loaded"] > 0


@pytest.mark.parametrize("count", COUNTS)
def test_damaged_checkpoints(tmp_path: Path, count: int) -> None:
    trainer = tiny_trainer(steps=2)
    trainer.run()
    save_checkpoint(trainer, tmp_path)
    (step,) = steps_in(tmp_path)
    fuzzed = Fuzzed(tmp_path / f"step-{step:08d}", CHECKPOINT, sign_checkpoint, seed=count)
    restore_checkpoint(trainer, tmp_path)
    before = memory()
    fuzzed.run(count, lambda: restore_checkpoint(trainer, tmp_path))
    assert memory() - before < ALLOWED
    assert fuzzed.outcomes["refused"] > count / 2
    assert fuzzed.outcomes["loaded"] > 0
