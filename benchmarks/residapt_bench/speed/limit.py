"""``residapt bench speed limit``: whether a run that takes longer than allowed ends when it should.

The network waits in its forward pass, so that training is slow on every machine and other programs are not disturbed;
importing, optimisers, scores and the report take what they take.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.table import Table
from torch import Tensor, nn

from residapt.errors import TrainingError
from residapt.settings import Settings
from residapt_bench.record import Environment, append_record
from residapt_bench.usage import Usage, run_measured

MINUTES = (5.0, 10.0, 20.0)
WITHIN = 0.1
"""Largest share of the time allowed by which a run may miss it."""
CALL, IMAGE = 0.01, 0.025
"""Seconds that the network waits in a forward pass, and for each image in it."""
IMAGES, CLASSES = 200, 3


class LimitRecord(Settings):
    """One run."""

    minutes: float
    """Time allowed."""
    planned: dict[str, int]
    """Steps of both trainings before the first."""
    taken: dict[str, int]
    """Steps that were taken."""
    parts: dict[str, float]
    """Seconds of each part of the run."""
    notes: tuple[str, ...] = ()
    """What the run says about its steps."""
    usage: Usage
    """What the whole process took, and what others used."""
    environment: Environment
    """What it was run with."""

    @property
    def share(self) -> float:
        """Of the time allowed."""
        return self.usage.seconds / (60.0 * self.minutes)


class Waiting(nn.Module):
    """A small network that waits."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 32), nn.ReLU())
        self.head = nn.Linear(32, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Logits, later than need be."""
        time.sleep(CALL + IMAGE * len(x))
        logits: Tensor = self.head(self.body(x))
        return logits


def domains() -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Noisy images of three classes, those of the target brighter."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(IMAGES) % CLASSES
    centres = torch.randn(CLASSES, 1, 8, 8, generator=generator)
    source, target = (centres[labels] + torch.randn(IMAGES, 1, 8, 8, generator=generator) for _ in range(2))
    return (source, labels), target + 0.5


_RUN = """
import json, sys
import residapt
from residapt_bench.speed.limit import Waiting, domains
source, target = domains()
minutes, out, result = sys.argv[1:]
run = residapt.adapt(Waiting(), source=source, target=target, out=out, minutes=float(minutes), train_source_first=True)
config = run.setup.config
planned = {"source training": config.pretrain.steps, "adaptation": config.train.steps}
notes = [note for note in run.summary.notes if "steps instead of" in note]
with open(result, "w") as file:
    found = {"planned": planned, "taken": run.summary.steps, "parts": run.summary.seconds, "notes": notes}
    json.dump(found, file)
"""


def measure_limit(minutes: float) -> LimitRecord:
    """A run in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="residapt-limit-") as folder:
        out, log, result = (Path(folder, name) for name in ("run", "log", "result.json"))
        code, usage = run_measured([sys.executable, "-c", _RUN, str(minutes), str(out), str(result)], log)
        if code:
            raise TrainingError(f"the run of {minutes:g} minutes ended with code {code}:\n{log.read_text()[-2000:]}")
        found = json.loads(result.read_text(encoding="utf-8"))
    values = {"minutes": minutes, "usage": usage, "environment": Environment.here()}
    return LimitRecord.parse({**found, **values}, where="limit")


def run_limit(minutes: Sequence[float], out: Path | None) -> list[LimitRecord]:
    """Measure each, and append the records to ``out``."""
    records = []
    for each in minutes or MINUTES:
        records.append(measure_limit(each))
        if out is not None:
            append_record(out, records[-1])
    return records


def limit_table(records: Sequence[LimitRecord]) -> Table:
    """Time and steps of each run."""
    table = Table("minutes", "took", "of the time allowed", "source steps", "adaptation steps", "others used")
    for record in records:
        steps = (f"{record.planned[name]} -> {record.taken[name]}" for name in ("source training", "adaptation"))
        others = "" if record.usage.others is None else f"{record.usage.others:.1f}"
        kept = "" if abs(record.share - 1.0) <= WITHIN else " (missed)"
        table.add_row(
            f"{record.minutes:g}", f"{record.usage.seconds / 60:.2f}", f"{record.share:.0%}{kept}", *steps, others
        )
    return table
