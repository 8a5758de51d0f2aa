"""``residapt bench speed compile``: a training step with the network compiled by torch, beside one without."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from pathlib import Path

import torch
from rich.table import Table

from residapt.methods import build_method
from residapt.train import TrainConfig
from residapt.train.optimiser import build_optimizer
from residapt_bench.record import append_record
from residapt_bench.speed.cases import CASES, PROGRESS, SpeedCase, Step, resnet_case
from residapt_bench.speed.steps import Prepared, SpeedRecord, interleave, using_threads

NETWORKS = {
    **{name: CASES[name] for name in ("lenet", "svhnet", "resnet50", "vit_s")},
    "resnet18": replace(resnet_case("resnet18", size=32, pixels=112), aim=1.0),
}
"""Five networks of different kinds."""


def training_step(case: SpeedCase, *, compiled: bool) -> Step:
    """A step of training the source network, as the trainer does it."""
    batch = case.batch()
    method = build_method("source_only", case.network(), example=batch.source)
    method.to(memory_format=torch.channels_last).train()
    if compiled:
        method.streams.compile_network()
    optimizer = build_optimizer(method.groups(), TrainConfig())

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        method.losses(batch, PROGRESS).total.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def measure_compiled(case: SpeedCase, rounds: int) -> SpeedRecord:
    """Steps that take turns, and the time that the first compiled step takes."""
    rounds = max(5, round(rounds * case.rounds))
    with using_threads(case.threads):
        steps = {name: training_step(case, compiled=name == "compiled") for name in ("eager", "compiled")}
        began, used = time.perf_counter(), time.process_time()
        steps["compiled"]()
        first, first_used = time.perf_counter() - began, time.process_time() - used
        timings = interleave({name: _ready(step) for name, step in steps.items()}, rounds, warmup=2)
    seconds = {name: statistics.median(timing.wall) for name, timing in timings.items()}
    processor = {name: statistics.median(timing.processor) for name, timing in timings.items()}
    return SpeedRecord(
        case=case.name,
        measure="compile",
        variant="compiled",
        baseline="eager",
        seconds={**seconds, "first compiled step": first},
        processor_seconds={**processor, "first compiled step": first_used},
        ratio=seconds["compiled"] / seconds["eager"],
        processor_ratio=processor["compiled"] / processor["eager"],
        aim=None,
        floor=None,
        executed=None,
        rounds=rounds,
        threads=case.threads,
    )


def run_compiled(cases: list[str], rounds: int, out: Path | None) -> list[SpeedRecord]:
    """Measure the named networks, or all five."""
    records = []
    for name in cases or NETWORKS:
        records.append(measure_compiled(NETWORKS[name], rounds))
        if out is not None:
            append_record(out, records[-1])
    return records


def compiled_table(records: list[SpeedRecord]) -> Table:
    """The ratios, and after how many steps the time of compiling has come back."""
    table = Table(title="torch.compile")
    for column in ("network", "eager, ms", "compiled, ms", "ratio", "processor", "first step, s", "pays after steps"):
        table.add_column(column, justify="left" if column == "network" else "right")
    for record in records:
        eager, compiled, first = (record.seconds[name] for name in ("eager", "compiled", "first compiled step"))
        pays = f"{first / (eager - compiled):,.0f}" if compiled < eager else "never"
        numbers = f"{1e3 * eager:.1f}", f"{1e3 * compiled:.1f}", f"{record.ratio:.3f}", f"{record.processor_ratio:.3f}"
        table.add_row(record.case, *numbers, f"{first:.1f}", pays)
    return table


def _ready(step: Step) -> Prepared:
    return lambda: step
