r"""Per-image standardisation as the first thing a network does.

.. math:: x \leftarrow \frac{x - \bar x}{s + \epsilon}

with the mean and the standard deviation over all values of that image. Brightness and contrast of an image, and any
normalisation that came before, no longer matter. It is a forward pre-hook: names, types and the state dict of the
network stay as they are, copies and merged or exported networks contain it, and the metadata of files name it.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from residapt.errors import DataError

EPSILON = 1e-3
"""Keeps an image of one colour from becoming its noise."""


def standardise(images: Tensor) -> Tensor:
    """Each image with mean 0 and standard deviation 1 over its values; an image of one colour becomes 0."""
    if images.ndim < 2:
        raise DataError(f"standardise needs a batch of images (n, ...), got shape {tuple(images.shape)}.")
    dims = tuple(range(1, images.ndim))
    centred = images - images.mean(dim=dims, keepdim=True)
    return centred / (centred.square().mean(dim=dims, keepdim=True).sqrt() + EPSILON)


def standardised(model: nn.Module) -> nn.Module:
    """Let a network standardise its input, in place; a second call changes nothing."""
    if not is_standardised(model):
        model.register_forward_pre_hook(_standardise_input)
    return model


def is_standardised(model: nn.Module) -> bool:
    """Whether a network standardises its input."""
    return _standardise_input in model._forward_pre_hooks.values()


def _standardise_input(_module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return (standardise(inputs[0]), *inputs[1:])
