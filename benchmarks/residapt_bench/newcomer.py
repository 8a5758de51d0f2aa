"""``residapt bench newcomer``: the command that a new user types, on Office-31, with what it took and what came of it.

Each run is a process of its own that starts with an empty cache of decoded images, as the first run of a user does.
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from residapt.errors import TrainingError
from residapt.settings import Settings
from residapt.storage.run_directory import RunDirectory
from residapt.storage.summary import RunSummary, read_summary
from residapt_bench.record import Environment, append_record
from residapt_bench.usage import Usage, run_measured

DOMAINS = ("amazon", "webcam", "dslr")
MODEL, WEIGHTS = "timm:tf_efficientnet_lite0", "tf_efficientnet_lite0.safetensors"
LOOKS = ("checks", "scoring", "report")
"""Parts of a run in which nothing is trained: scores and health along it, final scores, files and report."""


class NewcomerRun(Settings):
    """What is typed; None where an option is left out."""

    source: str
    """A domain of Office-31."""
    target: str
    """Another one, whose labels score the result."""
    image_size: int = 128
    """Pixels."""
    seed: int = 0
    """``--seed``."""
    freeze: str | None = None
    """``--freeze``."""
    minutes: float | None = None
    """``--set minutes``."""
    recipe: str | None = None
    """``--recipe``."""

    def name(self) -> str:
        """Pair, size and whatever is set."""
        more = {"recipe": self.recipe, "freeze": self.freeze, "minutes": self.minutes}
        options = "".join(f", {key} {value}" for key, value in more.items() if value is not None)
        return f"{self.source} -> {self.target}, {self.image_size} pixels{options}"

    def command(self, root: Path, out: Path) -> list[str]:
        """The arguments of ``residapt``."""
        images = {domain: str(root / "office31" / domain / "images") for domain in (self.source, self.target)}
        values: dict[str, Any] = {
            "-s": images[self.source],
            "-t": images[self.target],
            "-m": MODEL,
            "--weights": root / "weights" / WEIGHTS,
            "--image-size": self.image_size,
            "--evaluate": images[self.target],
            "-o": out,
            "--seed": self.seed,
            "--recipe": self.recipe,
            "--freeze": self.freeze,
            "--set": None if self.minutes is None else f"minutes={self.minutes:g}",
        }
        return ["adapt", *(word for key, value in values.items() if value is not None for word in (key, str(value)))]


class NewcomerRecord(Settings):
    """What a run took and came to."""

    run: NewcomerRun
    """What was typed."""
    source_only: float
    """Accuracy of the source network on the target, per cent."""
    adapted: float
    """Of the adapted network."""
    selected: float
    """Of the network that the guard selects."""
    helped: bool | None
    """What the guard says."""
    frozen: str | None
    """The last frozen stage."""
    views: int
    """Of each image, computed once."""
    steps: dict[str, int]
    """Of both trainings."""
    parts: dict[str, float]
    """Seconds of each part, from the run's own table."""
    usage: Usage
    """What the whole process took, and what others used."""
    environment: Environment
    """What it was run with."""

    @property
    def share_of_looks(self) -> float:
        """Share of the time in which nothing was read or trained, by the run's own table."""
        return sum(self.parts[name] for name in LOOKS) / sum(self.parts.values())


def run_newcomer(run: NewcomerRun, root: Path, out: Path) -> NewcomerRecord:
    """Run the command; the run directory stays in ``out``."""
    log = out.with_suffix(".log")
    with tempfile.TemporaryDirectory(prefix="residapt-newcomer-") as cache:
        command = [sys.executable, "-m", "residapt", *run.command(root, out)]
        code, usage = run_measured(command, log, {"RESIDAPT_CACHE": cache})
    if code:
        raise TrainingError(f"{run.name()}: the command ended with code {code}; see '{log}'.")
    return record_of(run, read_summary(RunDirectory(out).summary), usage)


def record_of(run: NewcomerRun, summary: RunSummary, usage: Usage) -> NewcomerRecord:
    """The record of a finished run."""
    percent = {one.stage: round(one.percent, 2) for one in summary.accuracies}
    return NewcomerRecord(
        run=run,
        source_only=percent["source_only"],
        adapted=percent["adapted"],
        selected=percent["source_only" if summary.verdict.selected == "source" else "adapted"],
        helped=summary.verdict.helped,
        frozen=summary.frozen.last,
        views=summary.frozen.views,
        steps=summary.steps,
        parts=dict(summary.seconds),
        environment=Environment.here(),
        usage=usage,
    )


def run_missing(runs: Iterable[NewcomerRun], out: Path, root: Path, cache: Path) -> Iterator[NewcomerRecord]:
    """Run what has no record yet, one after the other, and append each record as it comes."""
    for run in runs:
        if any(record.run == run for record in read_newcomer_records(out)):
            continue
        place = cache / "newcomer" / re.sub(r"\W+", "-", f"{run.name()} seed {run.seed}")
        shutil.rmtree(place, ignore_errors=True)  # of a run that was stopped
        record = run_newcomer(run, root, place)
        append_record(out, record)
        yield record


def read_newcomer_records(path: Path) -> list[NewcomerRecord]:
    """The records of a file, which need not exist."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [NewcomerRecord.parse(json.loads(line), where=str(path)) for line in lines]


def newcomer_table(records: Iterable[NewcomerRecord]) -> str:
    """Means over the seeds as Markdown."""
    rows = [
        "| run | seeds | frozen after | source only | adapted | minutes on the clock | processor minutes | others used "
        "| looks and report, % |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[str, list[NewcomerRecord]] = {}
    for record in records:
        groups.setdefault(record.run.name(), []).append(record)
    for name, own in groups.items():
        seeds = ", ".join(str(record.run.seed) for record in own)
        stages = ", ".join(sorted({f"`{record.frozen}`" if record.frozen else "nothing" for record in own}))
        cells = (
            _mean(own, lambda r: r.source_only),
            _mean(own, lambda r: r.adapted),
            _mean(own, lambda r: r.usage.seconds / 60),
            _mean(own, lambda r: r.usage.processor_seconds / 60),
            _mean(own, lambda r: r.usage.others),
            _mean(own, lambda r: 100 * r.share_of_looks),
        )
        rows.append(f"| {name} | {seeds} | {stages} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _mean(records: list[NewcomerRecord], value: Any) -> str:
    found = [each for each in map(value, records) if each is not None]
    return f"{statistics.fmean(found):.1f}" if len(found) == len(records) else ""
