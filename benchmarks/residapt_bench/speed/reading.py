"""``residapt bench speed data``: reading photographs from a folder, beside tensors in memory and beside decoding alone.

Photographs of 256 pixels are rendered, decoded at 64 and kept in a cache. The network is as small as LeNet, so that
data is the limit, and has one thread, so that decoding has the other cores. What is compared takes turns in one run;
both clocks are read, and ratios of processor time are those that other programs on the machine disturb less.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from rich.table import Table
from torch import nn

from residapt.data.decoded import CacheConfig, Files, Pixels
from residapt.data.domains import DomainPair, Labelled, TensorImages
from residapt.data.sources import OpenLabelled, Reading, open_source, open_target
from residapt.methods import build_method
from residapt.models import LeNet
from residapt.models.input_spec import InputSpec
from residapt.parallel.forked import free_port
from residapt.settings import Settings
from residapt.train import TrainConfig, Trainer
from residapt_bench.record import append_record
from residapt_bench.speed.rendered import CLASSES, render_folders
from residapt_bench.speed.steps import using_threads

FORM = InputSpec(size=64, channels=3, mean=(0.5,) * 3, std=(0.25,) * 3)
BATCH = 64
IMAGES = 50_000
"""Photographs, unless another number is asked for."""
STEPS = 20
"""Steps of one turn."""
AIMS = {
    "first-epoch": 0.6,
    "cached": 0.85,
    "start, cached": 5.0,
    "start, empty cache": 5.0,
    "memory": 300.0,
    "tensors": 3.0,
}
"""Smallest ratio, or largest number of seconds or megabytes."""


class ReadingRecord(Settings):
    """One measurement."""

    version: Literal[1] = 1
    """Of the format."""
    measure: str
    """What was measured."""
    images: int
    """Photographs in the two folders."""
    values: dict[str, float]
    """What was found: images a second by the wall clock and for each second of processor time, ratios, seconds, MB."""
    cores: int = os.cpu_count() or 1
    """Of the machine."""
    torch: str = str(torch.__version__)
    """Version of PyTorch."""


def small_network() -> nn.Module:
    """LeNet on the images at a quarter of their size: at half of it, its step takes as long as decoding."""
    return nn.Sequential(nn.AvgPool2d(4), LeNet(3, CLASSES, image_size=FORM.size // 4))


@dataclass
class Clock:
    """Time that something has taken, and what it has done."""

    wall: float = 0.0
    processor: float = 0.0
    done: int = 0

    @contextmanager
    def running(self, count: int) -> Iterator[None]:
        """Measure the block, which does ``count`` things."""
        wall, processor = time.perf_counter(), time.process_time()
        yield
        self.wall += time.perf_counter() - wall
        self.processor += time.process_time() - processor
        self.done += count

    def rates(self, name: str) -> dict[str, float]:
        """Things done in a second."""
        return {f"{name} a second": self.done / self.wall, f"{name} a processor second": self.done / self.processor}


def reading(cache: Path, kept: float = 20e9) -> Reading:
    """With the changes that photographs have by default."""
    return Reading(FORM, cache=CacheConfig(kept, cache))


def trainer_on(source: OpenLabelled, target: Any) -> Trainer:
    """DANN on the small network."""
    torch.manual_seed(0)
    pair = DomainPair(Labelled(source.images.train, source.labels), target)
    example = source.images.plain.fetch(torch.arange(2), torch.Generator().manual_seed(0))
    method = build_method("dann_flip", small_network(), example=example)
    return Trainer(method, pair, TrainConfig(steps=10**6, batch_size=BATCH, log_every=10**6))


def turn(trainer: Trainer, clock: Clock, steps: int = STEPS) -> None:
    """Some steps; batches that are prepared ahead are waited for, or the other's turn would pay for them."""
    with clock.running(2 * BATCH * steps):
        for _ in range(steps):
            trainer._one_step()
        trainer.prefetcher.wait()


def decoding(folders: tuple[Path, Path], cache: Path, rounds: int) -> dict[str, float]:
    """Decoding alone, by as many threads as there are, beside the first epoch of a training that fills the cache."""
    source, target = (Path(folder) for folder in folders)
    files = Files(tuple(sorted(target.iterdir())), target)
    alone = Pixels(files, FORM, what="target", cache=CacheConfig(0))
    trainer = trainer_on(open_source(source, reading(cache)), open_target(target, reading(cache)).train)
    decoded, trained = Clock(), Clock()
    turn(trainer, Clock(), 2)
    for number in range(rounds):
        start = number * 2 * BATCH * STEPS
        with decoded.running(2 * BATCH * STEPS):
            alone.read(torch.arange(start, start + 2 * BATCH * STEPS) % len(files))
        turn(trainer, trained)
    trainer.prefetcher.close()
    found = {**decoded.rates("decoded images"), **trained.rates("trained images")}
    return found | {
        "ratio": trained.done / trained.wall / (decoded.done / decoded.wall),
        "processor ratio": trained.done / trained.processor / (decoded.done / decoded.processor),
    }


def fill(folders: tuple[Path, Path], cache: Path) -> dict[str, float]:
    """Bring all images into the cache; a run would do that on its way."""
    clock = Clock()
    for folder, opened in zip(folders, _opened(folders, cache), strict=True):
        assert opened is not None, folder
        with clock.running(len(opened)):
            for index in torch.split(torch.arange(len(opened)), 1024):
                opened.read(index)
    return clock.rates("images")


def large(folders: tuple[Path, Path], cache: Path, count: int = 2_000) -> dict[str, float]:
    """Photographs at 224 pixels, as large networks read them: decoded and kept, then from the cache."""
    files = Files(tuple(sorted(folders[1].iterdir()))[:count], folders[1])
    found: dict[str, float] = {}
    for name in ("decoded and kept", "from the cache"):
        pixels, clock = (
            Pixels(files, FORM.model_copy(update={"size": 224}), what="target", cache=CacheConfig(20e9, cache)),
            Clock(),
        )
        with clock.running(len(pixels)):
            for index in torch.split(torch.arange(len(pixels)), 128):
                pixels.read(index)
        found |= clock.rates(f"{name}: images")
    return found


def _opened(folders: tuple[Path, Path], cache: Path) -> list[Pixels]:
    found = [open_source(folders[0], reading(cache)).images.pixels, open_target(folders[1], reading(cache)).pixels]
    return [pixels for pixels in found if pixels is not None]


def cached(folders: tuple[Path, Path], cache: Path, rounds: int) -> dict[str, float]:
    """Training from the cache beside training on tensors in memory that hold the same pixels."""
    source = open_source(folders[0], reading(cache))
    target = open_target(folders[1], reading(cache))
    assert source.images.pixels is not None
    assert target.pixels is not None
    held = [pixels.read(torch.arange(len(pixels))) for pixels in (source.images.pixels, target.pixels)]
    train, _ = reading(cache).transforms()
    tensors = open_source((held[0], source.labels), reading(cache))
    trainers = {
        "cache": trainer_on(source, target.train),
        "tensors": trainer_on(tensors, TensorImages(held[1], train)),
    }
    clocks = {name: Clock() for name in trainers}
    for trainer in trainers.values():
        turn(trainer, Clock(), 2)
    for _ in range(rounds):
        for name, trainer in trainers.items():
            turn(trainer, clocks[name])
    for trainer in trainers.values():
        trainer.prefetcher.close()
    found: dict[str, float] = {}
    for name, clock in clocks.items():
        found |= clock.rates(f"{name}: images")
    found["ratio"] = clocks["tensors"].wall / clocks["cache"].wall
    found["processor ratio"] = clocks["tensors"].processor / clocks["cache"].processor
    return found


_FIRST_STEPS = """
import json, os, sys, time
from pathlib import Path
count, launcher, last, began = int(sys.argv[3]), sys.argv[4], int(sys.argv[5]), float(sys.argv[6])
if launcher == "fork":
    from residapt.cli.adapt import RUNNING
    from residapt.parallel.forked import fork_processes
    fork_processes(count, RUNNING)
import residapt, torch
from residapt.train import Callback
from residapt_bench.speed.reading import proportional_set, small_network

class Last(Callback):
    def on_step(self, method, step):
        if step < last:
            return
        found = {"seconds": time.perf_counter() - wall, "processor seconds": time.process_time() - processor}
        found |= {"seconds with imports": time.time() - began, "processor seconds with imports": time.process_time()}
        grouped = torch.distributed.is_initialized()
        torch.distributed.barrier() if grouped else None  # all of them are there
        found["pss"] = proportional_set()
        if launcher == "fork" and os.environ["RANK"] == "0":
            found["pss"] += proportional_set(os.getppid())
        Path(sys.argv[7], os.environ.get("RANK", "0")).write_text(json.dumps(found))
        torch.distributed.barrier() if grouped else None
        os._exit(0)

torch.set_num_threads(1)
network = small_network()
wall, processor = time.perf_counter(), time.process_time()
residapt.adapt(network, source=sys.argv[1], target=sys.argv[2], steps=1000, callbacks=[Last()], verbose=False,
               train_source_first=False, freeze="none", **{"data.image_size": 64, "data.channels": 3})
"""


def start(folders: tuple[Path, Path], cache: Path) -> dict[str, float]:
    """From ``residapt.adapt`` to the end of its first step, in a process of its own."""
    found = _first_steps(folders, cache, 1)[0]
    return {name: value for name, value in found.items() if name != "pss"}


def proportional_set(process: int | str = "self") -> float:
    """Megabytes of a process, where what several share counts in parts."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def memory(folders: tuple[Path, Path], cache: Path) -> dict[str, float]:
    """One process that trains from the cache, and two that share each batch: forked, or started apart as torchrun does.

    The process that forks them, and waits, counts as well.
    """

    def total(count: int, launcher: str) -> float:
        return sum(found["pss"] for found in _first_steps(folders, cache, count, launcher, steps=15))

    one, forked, apart = total(1, "apart"), total(2, "fork"), total(2, "apart")
    return {
        "one process, MB": one,
        "two processes, MB": forked,
        "more, MB": forked - one,
        "two processes started apart, MB": apart,
        "more, started apart, MB": apart - one,
    }


_TENSORS = """
import json, time
import residapt, torch
from residapt.models import LeNet
from residapt_bench.speed.memory import peak_bytes

images, labels = [torch.rand(57_000, 3, 28, 28) for _ in range(2)], torch.arange(57_000) % 10
found = {"gigabytes": sum(part.nbytes for part in images) / 1e9}
for name in ("first call", "second call"):
    before, wall, processor = peak_bytes(), time.perf_counter(), time.process_time()
    residapt.adapt(LeNet(3), source=(images[0], labels), target=images[1], steps=20, train_source_first=False,
                   verbose=False)
    found[f"{name}, processor seconds"] = time.process_time() - processor
    found[f"{name}, seconds"] = time.perf_counter() - wall
    found[f"{name}, MB"] = (peak_bytes() - before) / 1e6
print(json.dumps(found))
"""


def tensors() -> dict[str, float]:
    """A call with 20 steps on float images in memory: time and memory of the whole call, with one thread."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", _TENSORS], env=environment, capture_output=True, text=True, check=True)
    return {name: float(value) for name, value in json.loads(done.stdout.splitlines()[-1]).items()}


def _first_steps(
    folders: tuple[Path, Path], cache: Path, count: int, launcher: str = "apart", steps: int = 1
) -> list[dict[str, float]]:
    """What each of several processes finds after some steps of one training."""
    with tempfile.TemporaryDirectory() as place:
        arguments = [sys.executable, "-c", _FIRST_STEPS, *map(str, folders), str(count), launcher, str(steps)]
        environment = {**os.environ, "RESIDAPT_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
        group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(count)}
        started = []
        for rank in range(1 if launcher == "fork" else count):
            own = {**group, "RANK": str(rank), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(count)}
            env = {**environment, **(own if count > 1 and launcher != "fork" else {})}
            started.append(subprocess.Popen([*arguments, str(time.time()), place], env=env))
        for process in started:
            if process.wait():
                raise subprocess.CalledProcessError(process.returncode, arguments)
        return [json.loads(file.read_text()) for file in sorted(Path(place).iterdir())]


def run_reading(images: int, folder: Path | None, rounds: int, out: Path | None) -> list[ReadingRecord]:
    """Render what is missing and measure everything; each record is appended to ``out`` at once."""
    records: list[ReadingRecord] = []

    def add(measure: str, found: Callable[[], dict[str, float]]) -> None:
        records.append(ReadingRecord(measure=measure, images=images, values=found()))
        if out is not None:
            append_record(out, records[-1])

    with tempfile.TemporaryDirectory(prefix="residapt-speed-") as temporary, using_threads(1):
        folders = render_folders(folder or Path(temporary), images)
        cache, empty = Path(temporary) / "cache", Path(temporary) / "empty"
        add("start, empty cache", lambda: start(folders, empty))
        add("first-epoch", lambda: decoding(folders, cache, rounds))
        add("fill", lambda: fill(folders, cache))
        add("at 224 pixels", lambda: large(folders, cache))
        add("start, cached", lambda: start(folders, cache))
        add("cached", lambda: cached(folders, cache, rounds))
        add("tensors", tensors)
        add("memory", lambda: memory(folders, cache))
    return records


def reading_table(records: list[ReadingRecord]) -> Table:
    """All numbers."""
    table = Table("measure", "number", "value", "wanted")
    for record in records:
        for name, value in record.values.items():
            decisive = name in ("ratio", "seconds", "more, MB", "first call, processor seconds")
            wanted = f"{AIMS[record.measure]:g}" if decisive and record.measure in AIMS else ""
            table.add_row(record.measure, name, f"{value:,.3g}" if value < 1000 else f"{value:,.0f}", wanted)
    return table
