"""What several processes cost: seconds of a step, and the part of it that goes into messages between them.

    OMP_NUM_THREADS=1 python benchmarks/two_processes.py
    OMP_NUM_THREADS=1 torchrun --nproc_per_node 2 benchmarks/two_processes.py

Each process has the same work in both cases (32 + 32 images), so that without overhead a step takes the same time.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from residapt.data.domains import DomainPair, Labelled, TensorImages
from residapt.distributed import Engine
from residapt.methods import MethodConfig
from residapt.methods.fit import make_trainer
from residapt.models import LeNet
from residapt.train import Callback, Method, TrainConfig

STEPS, SHARE = 60, 32


class Clock(Callback):
    """When each step ended."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_step(self, method: Method, step: int) -> None:
        self.times.append(time.perf_counter())


def timed(work: Callable[..., None], taken: list[float]) -> Callable[..., None]:
    """The same function, with its time written down."""

    def call(*args: object) -> None:
        started = time.perf_counter()
        work(*args)
        taken.append(time.perf_counter() - started)

    return call


def main() -> None:
    engine = Engine("cpu")
    torch.manual_seed(0)
    images, labels = torch.randn(512, 1, 28, 28), torch.arange(512) % 10
    pair = DomainPair(Labelled(TensorImages(images), labels), TensorImages(images + 0.3))
    clock, messages = Clock(), []
    engine.average_gradients = timed(engine.average_gradients, messages)  # type: ignore[method-assign]
    train = TrainConfig(steps=STEPS, batch_size=SHARE * engine.world)
    trainer = make_trainer("rpt", LeNet(), pair, method=MethodConfig(), train=train, callbacks=[clock], engine=engine)
    trainer.run()
    steps = [after - before for before, after in zip(clock.times[10:], clock.times[11:], strict=False)]
    size = sum(p.numel() for group in trainer.optimizer.param_groups for p in group["params"])
    if engine.is_main:
        print(
            f"{engine.world} process(es): step {1e3 * statistics.median(steps):.1f} ms (median), "
            f"{1e3 * min(steps):.1f} ms (fastest); gradients of {size:,} parameters averaged in "
            f"{1e3 * statistics.median(messages[10:]):.2f} ms (median), {1e3 * min(messages[10:]):.2f} ms (fastest)"
        )


if __name__ == "__main__":
    main()
