"""``residapt bench speed steps``: what RPT costs beside DANN, and what it costs after training (nothing).

All ratios come from one run in which the variants take turns, so that whatever else the machine does hits both. Two
clocks are read: the wall clock, and the processor time of this process, which other programs disturb less.
"""

from __future__ import annotations

import copy
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from rich.table import Table

from residapt.losses.adversarial import DomainClassifier
from residapt.rank import RankConfig, shrink
from residapt.settings import Settings
from residapt.train import Method, TrainConfig
from residapt.train.optimiser import build_optimizer
from residapt_bench.record import append_record
from residapt_bench.speed.cases import STEPS, SpeedCase, Step, find_case, rpt_method
from residapt_bench.speed.floor import count_layers, multiplications, step_floor
from residapt_bench.speed.memory import peak_memory

PROXES: dict[str, tuple[RankConfig, float]] = {
    # At this t about half of the layers lose ranks, so that pruning is part of what is timed.
    "two-step": (RankConfig(prox="two-step", step=2e-2), 0.1),
    "exact": (RankConfig(prox="exact", step=2e-2), 0.3),
}
"""The proximal steps that are timed, each with the largest acceptable share of a training step."""


class SpeedRecord(Settings):
    """One ratio: ``variant`` against ``baseline``."""

    version: Literal[1] = 1
    """Of the format."""
    case: str
    """Name of the network."""
    measure: str
    """``step`` (RPT, DANN), ``inference`` (merged, plain), ``prox`` (its step, a training step), or ``compile``
    (compiled, eager)."""
    variant: str
    """What is timed."""
    baseline: str
    """What it is compared with."""
    seconds: dict[str, float]
    """Median of each, by the wall clock."""
    processor_seconds: dict[str, float]
    """Median of each, by the processor's clock."""
    ratio: float
    """Of the medians by the wall clock."""
    processor_ratio: float
    """Of the medians by the processor's clock."""
    aim: float | None
    """Largest acceptable ratio."""
    floor: float | None
    """Ratio of the multiplications that are needed."""
    executed: float | None
    """Ratio of the multiplications that are executed."""
    rounds: int
    """Interleaved rounds."""
    threads: int
    """Threads of PyTorch."""
    memory: dict[str, int] = {}
    """Peak bytes of each, without the interpreter and its libraries."""
    torch: str = str(torch.__version__)
    """Version of PyTorch."""
    processor: str = platform.machine()
    """Kind of processor."""


@dataclass(frozen=True)
class Timing:
    """Seconds of one variant, round by round."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


Prepared = Callable[[], Step]


def interleave(variants: Mapping[str, Prepared], rounds: int, *, warmup: int = 1) -> dict[str, Timing]:
    """Time the variants in turns; each prepares its step outside the clocks, and every other round goes backwards."""
    timings = {name: Timing() for name in variants}
    for number in range(-warmup, rounds):
        for name, prepare in list(variants.items())[:: 1 if number % 2 else -1]:
            step = prepare()
            wall, processor = time.perf_counter(), time.process_time()
            step()
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            if number >= 0:
                timings[name].wall.append(wall)
                timings[name].processor.append(processor)
    return timings


def measure_speed(case: SpeedCase, *, rounds: int, memory: bool = True) -> list[SpeedRecord]:
    """All records of one case, from one interleaved run."""
    rounds = max(3, round(rounds * case.rounds))
    with using_threads(case.threads):
        method = rpt_method(case)
        steps = {name: build(case) for name, build in STEPS.items()}
        counts = {name: multiplications(step) for name, step in steps.items()}
        training = {name: _always(step) for name, step in steps.items()}
        if case.times_prox:
            training |= {f"prox {name}": _prox(method, config) for name, (config, _) in PROXES.items()}
        # Apart from each other: a short pass right after a long step would find its data gone from the caches.
        timings = {**interleave(training, rounds), **interleave(_inference(case, method), 3 * rounds, warmup=3)}
    sizes = {name: peak_memory(case, name) for name in STEPS} if memory else {}
    known = {"aim": case.aim, "floor": _floor(case), "executed": counts["rpt"] / counts["dann"], "memory": sizes}
    records = [
        _record(case, "step", "rpt", "dann", timings, **known),
        _record(case, "inference", "merged", "plain", timings, floor=1.0),
    ]
    if case.times_prox:
        records += [_record(case, "prox", f"prox {name}", "rpt", timings, aim=aim) for name, (_, aim) in PROXES.items()]
    return records


def run_speed(cases: tuple[str, ...], rounds: int, out: Path | None, threads: int | None = None) -> list[SpeedRecord]:
    """Measure the named cases; append the records to ``out``, one JSON object per line."""
    chosen = [find_case(name) for name in cases]
    if threads is not None:
        chosen = [replace(case, threads=threads) for case in chosen]
    records: list[SpeedRecord] = []
    for case in chosen:
        found = measure_speed(case, rounds=rounds)
        records += found
        if out is not None:
            for record in found:
                append_record(out, record)
    return records


def speed_table(records: list[SpeedRecord]) -> Table:
    """The ratios, each beside its floor and its aim."""
    used = {
        record.case: f"{record.case}: {record.threads} thread(s), {record.rounds} rounds" for record in records[::-1]
    }
    caption = f"Medians of steps that take turns. {'; '.join(reversed(used.values()))}. torch {torch.__version__}"
    table = Table(title="Cost of RPT", caption=caption)
    for column in ("case", "what", "ms or MB", "ratio", "processor", "floor", "aim"):
        table.add_column(column, justify="left" if column in ("case", "what") else "right")
    for record in records:
        names = (record.variant, record.baseline)
        what, numbers = " / ".join(names), " / ".join(f"{1e3 * record.seconds[name]:.1f}" for name in names)
        ratios = (record.ratio, record.processor_ratio, record.floor, record.aim)
        table.add_row(record.case, what, numbers, *("" if ratio is None else f"{ratio:.3f}" for ratio in ratios))
        if record.memory:
            one, other = (record.memory[name] / 2**20 for name in names)
            table.add_row(record.case, f"{what}, peak memory", f"{one:.0f} / {other:.0f}", f"{one / other:.3f}")
    return table


def _record(
    case: SpeedCase, measure: str, variant: str, baseline: str, timings: Mapping[str, Timing], **more: Any
) -> SpeedRecord:
    both = (variant, baseline)
    seconds = {name: statistics.median(timings[name].wall) for name in both}
    processor = {name: statistics.median(timings[name].processor) for name in both}
    return SpeedRecord(
        **{"aim": None, "floor": None, "executed": None, **more},
        case=case.name,
        measure=measure,
        variant=variant,
        baseline=baseline,
        seconds=seconds,
        processor_seconds=processor,
        ratio=seconds[variant] / seconds[baseline],
        processor_ratio=processor[variant] / processor[baseline],
        rounds=len(timings[variant].wall),
        threads=case.threads,
    )


def _floor(case: SpeedCase) -> float:
    transform = rpt_method(case).streams.config
    layers = count_layers(case.network(), case.batch().source)
    classifier = count_layers(DomainClassifier(case.classes), torch.zeros(case.size, case.classes))
    return step_floor(layers, classifier, left=transform.left_rank, right=transform.right_rank)


def _always(step: Step) -> Prepared:
    return lambda: step


def _inference(case: SpeedCase, method: Method) -> dict[str, Prepared]:
    x, networks = case.batch().target, {"plain": case.network(), "merged": method.target_model()}

    def predict(name: str) -> Step:
        network = networks[name].eval()

        def step() -> None:
            with torch.no_grad():
                network(x)

        return step

    return {name: _always(predict(name)) for name in networks}


def _prox(method: Method, config: RankConfig) -> Prepared:
    """A proximal step on a copy each time, since it changes the ranks; with an optimiser that has its moments."""

    def prepare() -> Step:
        streams = copy.deepcopy(method.streams)
        parameters = list(streams.transforms.parameters())
        optimizer = build_optimizer({"transform": parameters}, TrainConfig())
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()

        def step() -> None:
            shrink(streams, config, optimizer)

        return step

    return prepare


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """PyTorch with this number of threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
