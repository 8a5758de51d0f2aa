"""MNIST and USPS of a few images, in the files in which they are published, and plans of a few steps for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from residapt.train import TrainConfig
from residapt_bench.plan import Plan, SourceTraining

IMAGES = 40


def small_digits(root: Path) -> Path:
    """A folder that ``mnist-usps`` can be read from."""
    random = np.random.default_rng(0)
    for split in ("train", "t10k"):
        labels = (np.arange(IMAGES) % 10).astype(np.uint8)
        images = random.integers(0, 256, (IMAGES, 28, 28), dtype=np.uint8)
        _idx(root / f"{split}-images-idx3-ubyte", 2051, images)
        _idx(root / f"{split}-labels-idx1-ubyte", 2049, labels)
    for name in ("usps", "usps.t"):
        values = random.uniform(-1, 1, (IMAGES, 256)).round(3)
        lines = [f"{n % 10 + 1} " + " ".join(f"{i}:{v}" for i, v in enumerate(row, 1)) for n, row in enumerate(values)]
        (root / name).write_text("\n".join(lines) + "\n")
    return root


def _idx(path: Path, magic: int, values: np.ndarray) -> None:
    path.write_bytes(np.array([magic, *values.shape], ">i4").tobytes() + values.tobytes())


def small_plans(
    seeds: int, *, steps: int = 2, methods: tuple[str, ...] = ("source_only", "rpt"), note: str = ""
) -> list[Plan]:
    """Runs of ``mnist-usps`` that take a second."""
    return [
        Plan(
            task="mnist-usps",
            arch="lenet",
            method=method,
            seed=0,
            train=TrainConfig(steps=steps, batch_size=4, log_every=1),
            source=SourceTraining(steps=1, batch_size=4),
            note=note,
        ).with_seed(seed)
        for seed in range(seeds)
        for method in methods
    ]
