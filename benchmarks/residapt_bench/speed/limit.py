"""``residapt bench speed limit``: whether a run that takes longer than allowed ends when it should.

The network waits in its forward pass, so that training is slow on every machine and other programs are not disturbed;
importing, optimisers, scores and the report take what they take.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from PIL import Image
from rich.table import Table
from torch import Tensor, nn

from residapt.config import load_config
from residapt.data.synthetic import handwritten_digits, printed_digits
from residapt.errors import TrainingError
from residapt.settings import Settings
from residapt.storage.run_directory import RunDirectory
from residapt.storage.summary import read_summary
from residapt_bench.record import Environment, append_record
from residapt_bench.usage import Usage, run_measured

MINUTES = (5.0, 10.0, 20.0)
WITHIN = 0.1
"""Largest share of the time allowed by which a run may miss it."""
CALL, IMAGE = 0.01, 0.025
"""Seconds that the network waits in a forward pass, and for each image in it."""
SPEC = f"{__name__}:Waiting"
IMAGES = 200
"""Of each domain."""


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

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.AdaptiveAvgPool2d(8), nn.Conv2d(1, 8, 3, padding=1), nn.ReLU())
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, num_classes))

    def forward(self, x: Tensor) -> Tensor:
        """Logits, later than need be."""
        time.sleep(CALL + IMAGE * len(x))
        logits: Tensor = self.head(self.body(x))
        return logits


def write_domains(folder: Path) -> tuple[Path, Path]:
    """Printed digits in a folder for each class, and handwritten ones."""
    written = handwritten_digits()
    places = folder / "printed", folder / "written"
    for place, images in zip(places, (printed_digits(IMAGES), written.subset(range(IMAGES))), strict=True):
        for number, (image, label) in enumerate(zip(images.images, images.labels.tolist(), strict=True)):
            (place / str(label)).mkdir(parents=True, exist_ok=True)
            Image.fromarray(image[0].numpy()).save(place / str(label) / f"{number}.png")
    return places


def command(spec: str, minutes: float, source: Path, target: Path, out: Path) -> list[str]:
    """The command line of a run that takes longer than it may."""
    words = ["-m", "residapt", "adapt", "-s", source, "-t", target, "-o", out, "-m", f"{__name__}:Waiting"]
    more = ("--image-size", 28, "--set", "data.channels=1")
    time_allowed = ("--set", f"minutes={minutes:g}", "--set", "pretrain.allow_chance=true")
    return [sys.executable, *map(str, (*words, *more, *time_allowed))]


def measure_limit(minutes: float, spec: str = SPEC, options: Sequence[str] = ()) -> LimitRecord:
    """A run in a process of its own, with the command line's further options."""
    with tempfile.TemporaryDirectory(prefix="residapt-limit-") as place:
        folder = Path(place)
        source, target = write_domains(folder)
        words = [*command(spec, minutes, source, target, folder / "run"), *options]
        code, usage = run_measured(words, folder / "log", {"RESIDAPT_CACHE": str(folder / "cache")})
        if code:
            end = (folder / "log").read_text(encoding="utf-8")[-2000:]
            raise TrainingError(f"the run of {minutes:g} minutes ended with code {code}:\n{end}")
        run = RunDirectory(folder / "run")
        summary, config = read_summary(run.summary), load_config(run.config)
    return LimitRecord(
        minutes=minutes,
        planned={"source training": config.pretrain.steps or 0, "adaptation": config.train.steps},
        taken=summary.steps,
        parts=dict(summary.seconds),
        notes=tuple(note for note in summary.notes if "steps instead of" in note),
        usage=usage,
        environment=Environment.here(),
    )


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
