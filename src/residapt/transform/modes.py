"""Evaluation mode for as long as a block runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluation_mode(*networks: nn.Module) -> Iterator[None]:
    """Evaluation mode within the context; afterwards each module is in the mode that it had before."""
    modes = {module: module.training for network in networks for module in network.modules()}
    for network in networks:
        network.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
