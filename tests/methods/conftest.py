from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from residapt.data.batches import Batch
from support.tiny_networks import TinyLeNet, TinyMLP, image_batch, mlp_batch


@pytest.fixture
def make_mlp() -> Callable[[], TinyMLP]:
    def make(seed: int = 0) -> TinyMLP:
        torch.manual_seed(seed)
        return TinyMLP()

    return make


@pytest.fixture
def make_lenet() -> Callable[[], TinyLeNet]:
    def make(seed: int = 0) -> TinyLeNet:
        torch.manual_seed(seed)
        return TinyLeNet()

    return make


@pytest.fixture
def make_mlp_batch() -> Callable[..., Batch]:
    return mlp_batch


@pytest.fixture
def make_image_batch() -> Callable[..., Batch]:
    return image_batch
