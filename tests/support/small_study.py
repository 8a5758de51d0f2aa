"""A search of seconds over 16 x 16 images, also as a program that a test can kill."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch

from residapt.config import load_config
from residapt.run import Request, Setup, stages
from residapt.storage.run_directory import RunDirectory
from residapt.train import Callback, Method
from residapt.tune import StudyConfig, tune
from residapt.tune.search import PRETRAIN

SEARCH = ("discrepancy.weight=log:0.01..1", "transform.left_rank=choice:2,3")


def small_request(out: Path, **settings: object) -> Request:
    """Three classes of noisy patterns, shifted in the target."""
    random = torch.Generator().manual_seed(0)
    labels = torch.arange(45) % 3
    centres = torch.randn(3, 1, 16, 16, generator=random)
    images = centres[labels] + 0.3 * torch.randn(45, 1, 16, 16, generator=random)
    values = {
        "train.steps": 4,
        f"{PRETRAIN}.steps": 30,
        "train.batch_size": 6,
        "device": "cpu",
        "data.image_size": 16,
        **settings,
    }
    return Request(
        config=load_config(None, [f"{key}={value}" for key, value in values.items()]),
        source=(images, labels),
        target=images + 0.2,
        out=out,
    )


def study_config(trials: int, search: tuple[str, ...] = SEARCH) -> StudyConfig:
    return StudyConfig(search=search, trials=trials)


class Hang(Callback):
    """Wait in the middle of a run to be killed."""

    def on_step(self, method: Method, step: int) -> None:
        if step == 2:
            (Path(sys.argv[1]).parent / "hanging").touch()
            time.sleep(600)


def hang_in_second_trial() -> None:
    """From the second adaptation on, runs come to their second step and no further."""
    real, begun = stages._listeners, [0]

    def listeners(plan: Setup, run: RunDirectory | None, stage: str) -> list[Callback]:
        begun[0] += stage == "adapt"
        return [*real(plan, run, stage), *([Hang()] if begun[0] == 2 else [])]

    stages._listeners = listeners


if __name__ == "__main__":
    torch.set_num_threads(1)
    hang_in_second_trial()
    tune(small_request(Path(sys.argv[1])), study_config(3))
