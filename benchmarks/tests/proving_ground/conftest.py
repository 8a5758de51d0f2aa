"""Where the real data are, a cache that all tests share, and a small pair made by hand."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from residapt_bench.proving_ground.pair import PairSpec, ProvingPair
from residapt_bench.proving_ground.registry import PAIRS


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the data sets."""
    if "RESIDAPT_DATA" not in os.environ:
        pytest.skip("RESIDAPT_DATA does not say where the data are")
    return Path(os.environ["RESIDAPT_DATA"])


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made pairs, kept for all tests."""
    return tmp_path_factory.mktemp("proving-ground")


def _small_pair(spec: PairSpec | None = None, *, channels: int = 1, size: int = 28) -> ProvingPair:
    """Two classes: dark pictures and bright ones; the target is a little brighter."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(60) % 2
    noise = torch.randint(0, 40, (60, channels, size, size), generator=generator)
    pixels = (noise + 150 * labels.view(-1, 1, 1, 1)).to(torch.uint8)
    return ProvingPair(
        spec=spec or PAIRS["svhn-mnist"],
        seed=0,
        source_images=pixels,
        source_labels=labels,
        target_images=pixels + 20,
        target_test=(pixels[:20] + 30, labels[:20]),
        few=(pixels[:4] + 10, labels[:4]),
        classes=("dark", "bright"),
        unknown_share=0.0,
        checksum="",
        root=Path(),
    )


@pytest.fixture
def small_pair() -> Callable[..., ProvingPair]:
    """``small_pair(spec, channels=3, size=32)``: two classes, of uniform pictures with noise."""
    return _small_pair


@pytest.fixture
def pair() -> ProvingPair:
    """A small pair of grey pictures."""
    return _small_pair()
