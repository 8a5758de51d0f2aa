"""``residapt bench speed growth``: how time and memory of a step grow with rank, batch and depth."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from rich.table import Table

from residapt.errors import ConfigError, DataError
from residapt.settings import Settings
from residapt_bench.record import append_record
from residapt_bench.report.svg import Line, Panel, svg_chart
from residapt_bench.speed.cases import STEPS, SpeedCase, resnet_case
from residapt_bench.speed.memory import peak_memory
from residapt_bench.speed.steps import interleave, using_threads

AXES: dict[str, tuple[int, ...]] = {
    "rank": (8, 16, 32, 64, 128),
    "batch": (2, 4, 8, 16),
    "depth": (18, 50, 101),
}
"""What grows, and its values; the others stay at rank 32, 8 + 8 images, ResNet-50."""
WORDS = {"rank": "rank, l = r", "batch": "images of each domain", "depth": "layers of the ResNet"}


class GrowthPoint(Settings):
    """One network, batch and rank: RPT and DANN in turns."""

    version: Literal[1] = 1
    """Of the format."""
    axis: str
    """What grows."""
    value: int
    """Its value."""
    pixels: int
    """Height and width of the images."""
    seconds: dict[str, float]
    """Median of each, by the wall clock."""
    ratio: float
    """RPT to DANN, by the wall clock."""
    processor_ratio: float
    """RPT to DANN, by the processor's clock."""
    memory: dict[str, int]
    """Peak bytes of each, without the interpreter and its libraries."""
    rounds: int
    """Interleaved rounds."""
    threads: int
    """Threads of PyTorch."""
    torch: str = str(torch.__version__)
    """Version of PyTorch."""
    processor: str = platform.machine()
    """Kind of processor."""

    @property
    def memory_ratio(self) -> float | None:
        """RPT's peak over DANN's."""
        return self.memory["rpt"] / self.memory["dann"] if self.memory else None


def growth_case(axis: str, value: int, pixels: int) -> SpeedCase:
    """The case at one value of an axis."""
    if axis not in AXES:
        raise ConfigError(f"there is no axis '{axis}'. Axes: {', '.join(AXES)}.")
    size, rank, depth = 8, 32, 50
    if axis == "rank":
        rank = value
    elif axis == "batch":
        size = value
    else:
        depth = value
    return resnet_case(f"resnet{depth}", size=size, pixels=pixels, rank=rank)


def measure_growth(axis: str, value: int, *, pixels: int, rounds: int, memory: bool = True) -> GrowthPoint:
    """One point, from one interleaved run."""
    case = growth_case(axis, value, pixels)
    with using_threads(case.threads):
        steps = {name: build(case) for name, build in STEPS.items()}
        timings = interleave({name: partial(lambda step: step, step) for name, step in steps.items()}, rounds)
    wall = {name: statistics.median(timing.wall) for name, timing in timings.items()}
    processor = {name: statistics.median(timing.processor) for name, timing in timings.items()}
    return GrowthPoint(
        axis=axis,
        value=value,
        pixels=pixels,
        seconds=wall,
        ratio=wall["rpt"] / wall["dann"],
        processor_ratio=processor["rpt"] / processor["dann"],
        memory={name: peak_memory(case, name) for name in STEPS} if memory else {},
        rounds=rounds,
        threads=case.threads,
    )


def run_growth(axes: Sequence[str], *, pixels: int, rounds: int, out: Path | None) -> list[GrowthPoint]:
    """Measure all points of the axes; each is appended to ``out`` at once."""
    for axis in axes:
        growth_case(axis, 1, pixels)  # an unknown one is named before anything runs
    points = []
    for axis in axes:
        for value in AXES[axis]:
            points.append(measure_growth(axis, value, pixels=pixels, rounds=rounds))
            if out is not None:
                append_record(out, points[-1])
    return points


def growth_table(points: Iterable[GrowthPoint]) -> Table:
    """For a terminal."""
    table = Table("axis", "value", "DANN s", "RPT s", "ratio", "processor", "memory", title="Growth of RPT's cost")
    for point in points:
        memory = "" if point.memory_ratio is None else f"{point.memory_ratio:.3f}"
        seconds = (f"{point.seconds[name]:.2f}" for name in ("dann", "rpt"))
        table.add_row(
            point.axis, str(point.value), *seconds, f"{point.ratio:.3f}", f"{point.processor_ratio:.3f}", memory
        )
    return table


def read_growth(file: Path) -> list[GrowthPoint]:
    """Points that were measured before; of the same value the last."""
    try:
        points = [GrowthPoint.model_validate_json(line) for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise DataError(f"'{file}' does not hold records of growth: {error}.") from None
    return list({(point.axis, point.value): point for point in points}.values())


def growth_figure(points: Sequence[GrowthPoint]) -> str:
    """An SVG with a panel for each axis: ratios of time, by both clocks, and memory to DANN's."""
    panels = []
    for axis in AXES:
        found = sorted((point for point in points if point.axis == axis), key=lambda point: point.value)
        if not found:
            continue
        values = [point.value for point in found]
        known = [point for point in found if point.memory_ratio is not None]
        memory = Line("peak memory", [point.value for point in known], [point.memory_ratio or 0.0 for point in known])
        lines = [
            Line("time", values, [point.ratio for point in found]),
            Line("time, processor's clock", values, [point.processor_ratio for point in found]),
            *([memory] if known else []),
        ]
        panels.append(Panel(lines, WORDS[axis], "RPT / DANN", scale="log", level=(1.0, "DANN")))
    if not panels:
        raise DataError("there are no records of growth to draw.")
    return svg_chart(panels)
