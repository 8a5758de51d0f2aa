"""``residapt bench speed parts``: what each part of docs/research/beyond.md adds to a step of the plain method."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from rich.table import Table

from residapt.data.domains import DomainPair, Labelled, TensorImages
from residapt.methods import MethodConfig, build_method, check_method
from residapt.methods.recipes import RECIPES
from residapt.models.standardise import standardised
from residapt.settings import Settings
from residapt.train import TrainConfig
from residapt.train.optimiser import build_optimizer
from residapt_bench.digits.recipes import DIGIT_CHANGES
from residapt_bench.record import append_record
from residapt_bench.speed.cases import PROGRESS, SpeedCase, Step, find_case
from residapt_bench.speed.steps import Timing, interleave, using_threads

TOGETHER = 20
"""Steps that are timed as one: what happens every 10 or 20 steps must be in it."""
PRIOR, INFORMATION = ({name: RECIPES["plus"][name]} for name in ("prior", "information"))
STANDARDISE = {"standardise": True}
AUGMENT = {"augment": DIGIT_CHANGES.model_dump()}
CONSISTENCY = {"consistency": {**RECIPES["plus"]["consistency"], "start": 0.0}}
PARTS: dict[str, tuple[dict[str, Any], float | None]] = {
    "plain": ({}, None),
    "prior": (PRIOR, None),
    "information": (INFORMATION, None),
    "prior, information": ({**PRIOR, **INFORMATION}, 1.03),
    "standardise": (STANDARDISE, None),
    "augment": (AUGMENT, None),
    "consistency": (CONSISTENCY, None),
    "recipe plus": ({**PRIOR, **INFORMATION, **STANDARDISE, **AUGMENT, **CONSISTENCY}, None),
    "average": ({"average": {"decay": 0.999, "start": 0.0}}, None),
    "discrepancy.steps=2": ({"discrepancy": {"steps": 2}}, None),
}
"""Settings of each part, and the largest acceptable ratio to the plain method."""


class PartRecord(Settings):
    """A step with one part against a step without any."""

    version: Literal[1] = 1
    """Of the format."""
    case: str
    """Name of the network."""
    method: str
    """What the part is added to."""
    part: str
    """The part."""
    milliseconds: float
    """Of one step, by the processor's clock: the median round."""
    ratio: float
    """To the plain step: the median over the rounds, each with the plain step of the same round."""
    aim: float | None
    """Largest acceptable ratio."""
    rounds: int
    """Interleaved rounds."""
    torch: str = str(torch.__version__)
    """Version of PyTorch."""
    processor: str = platform.machine()
    """Kind of processor."""


def part_steps(case: SpeedCase, method: str, settings: dict[str, Any]) -> Step:
    """So many steps as the trainer does them."""
    given = {name: value for name, value in settings.items() if name != "standardise"}
    network = standardised(case.network()) if settings.get("standardise") else case.network()
    batch, config = case.batch(), MethodConfig.parse(given)
    made = build_method(method, network, config, example=batch.source)
    made.to(memory_format=torch.channels_last).train()
    labels = torch.arange(10 * case.classes) % case.classes
    images = TensorImages(torch.zeros(len(labels), *case.shape))
    made.setup(DomainPair(Labelled(images, labels), images), case.classes)
    optimizer = build_optimizer(made.groups(), TrainConfig())
    done = 0

    def steps() -> None:
        nonlocal done
        for _ in range(TOGETHER):
            optimizer.zero_grad(set_to_none=True)
            made.losses(batch, PROGRESS).total.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            for loss in made.further_losses():
                optimizer.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            done += 1
            made.after_step(done, optimizer)

    return steps


def run_parts(
    case_name: str, method: str, rounds: int, out: Path | None = None, parts: Sequence[str] = tuple(PARTS)
) -> list[PartRecord]:
    """Time the parts in turns; append the records to ``out``, one JSON object per line."""
    check_method(method)
    case = find_case(case_name)
    with using_threads(case.threads):
        steps = {name: part_steps(case, method, PARTS[name][0]) for name in parts}
        timings = interleave({name: _ready(step) for name, step in steps.items()}, rounds)
    records = [_record(case, method, name, timings) for name in parts]
    if out is not None:
        for record in records:
            append_record(out, record)
    return records


def _ready(step: Step) -> Callable[[], Step]:
    return lambda: step


def _record(case: SpeedCase, method: str, name: str, timings: dict[str, Timing]) -> PartRecord:
    own, plain = timings[name].processor, timings["plain"].processor
    ratio = statistics.median(mine / theirs for mine, theirs in zip(own, plain, strict=True))
    milliseconds = 1e3 * statistics.median(own) / TOGETHER
    return PartRecord(
        case=case.name,
        method=method,
        part=name,
        milliseconds=milliseconds,
        ratio=ratio,
        aim=PARTS[name][1],
        rounds=len(own),
    )


def parts_table(records: Sequence[PartRecord]) -> Table:
    """The parts with what they cost."""
    table = Table(title=f"Cost of the parts: {records[0].method} on {records[0].case}")
    for column in ("part", "ms a step", "ratio", "aim"):
        table.add_column(column, justify="left" if column == "part" else "right")
    for record in records:
        aim = "" if record.aim is None else f"{record.aim:.2f}"
        table.add_row(record.part, f"{record.milliseconds:.2f}", f"{record.ratio:.3f}", aim)
    return table
