"""A finished run of a small network, and folders of small images for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from residapt.config import Config, DataConfig, write_config
from residapt.models import LeNet
from residapt.storage import save_pretrained, write_model
from residapt.storage.run_directory import RunDirectory
from residapt.streams import TwoStream
from support.small_run import METADATA


@pytest.fixture(scope="session")
def two_stream() -> TwoStream:
    """LeNet with ranks of its own, shared in the last layer, which is balanced so that all classes occur."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        model = LeNet(num_classes=3)
        streams = TwoStream(model, left_rank=3, right_rank=2, ranks={"conv2": (0, 0)}, exclude=("full4",)).eval()
        with torch.no_grad():
            blots = torch.nn.functional.interpolate(torch.rand(64, 1, 5, 5), (28, 28), mode="bilinear")
            logits = streams((blots - 0.4) / 0.2, stream="target")
            model.full4.weight.mul_(8 / logits.std(0)[:, None])
            model.full4.bias.sub_(logits.mean(0)).mul_(8 / logits.std(0))
        return streams


@pytest.fixture(scope="session")
def network(two_stream: TwoStream) -> nn.Module:
    """Its target network."""
    return two_stream.merge_and_unload().eval()


@pytest.fixture
def run(tmp_path: Path, two_stream: TwoStream, network: nn.Module) -> RunDirectory:
    """A run directory as ``adapt`` leaves it, whose adapter refers to its base."""
    made = RunDirectory.create(tmp_path / "run")
    write_config(Config(data=DataConfig(target=str(tmp_path / "target"))), made.config)
    write_model(two_stream.model, made.source, METADATA.model_copy(update={"method": "source_only"}))
    write_model(network, made.model, METADATA)
    save_pretrained(two_stream, made.adapter, metadata=METADATA)
    return made


@pytest.fixture
def draw() -> Callable[..., Path]:
    """``draw(path, seed)``: write an image of random blots there."""

    def make(path: Path, seed: int = 0) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        generator = np.random.default_rng(seed)
        pixels = generator.integers(0, 256, (5, 7, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((42, 30)).save(path)
        return path

    return make
