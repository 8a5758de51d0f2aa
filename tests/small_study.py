"""A search of seconds over 16 x 16 images, also as a program that a test can kill."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch

from residapt.config import load_config
from residapt.workflow import Request
from residapt.workflow.tune import tune
from residapt.workflow.tune_store import StudyConfig
from residapt.workflow.tune_trials import Trial

SEARCH = ("discrepancy.weight=log:0.01..1", "transform.left_rank=choice:2,3")


def small_request(out: Path, **settings: object) -> Request:
    """Three classes of noisy patterns, shifted in the target."""
    random = torch.Generator().manual_seed(0)
    labels = torch.arange(45) % 3
    centres = torch.randn(3, 1, 16, 16, generator=random)
    images = centres[labels] + 0.3 * torch.randn(45, 1, 16, 16, generator=random)
    values = {
        "train.steps": 4,
        "source.steps": 30,
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


if __name__ == "__main__":
    torch.set_num_threads(1)
    place = Path(sys.argv[1])

    def slowly(trial: Trial) -> None:
        (place.parent / f"ended-{trial.number}").touch()
        time.sleep(float(sys.argv[3]))

    tune(small_request(place), study_config(int(sys.argv[2])), resume=place.exists(), on_trial=slowly)
