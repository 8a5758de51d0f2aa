"""Check that an exported network computes the same on batches of several sizes, before its file takes its place."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from residapt.data.preprocess import to_float
from residapt.errors import ModelError
from residapt.models import InputSpec

Runner = Callable[[Tensor], Tensor]
TOLERANCE = 1e-4
"""Largest difference of logits, relative to the largest logit where that is above 1."""


class LogitsOnly(nn.Module):
    """A network whose result is the tensor of logits, for one that returns an object with ``.logits``."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.network(images).logits
        return logits


def with_plain_output(network: nn.Module, example: Tensor) -> nn.Module:
    """The network itself, or wrapped where its result is not a tensor."""
    with torch.no_grad():
        return network if isinstance(network(example), Tensor) else LogitsOnly(network)


def example_batch(form: InputSpec, count: int) -> Tensor:
    """Images of coarse and fine noise, as the network sees images."""
    generator = torch.Generator().manual_seed(count)
    pixels = torch.rand(count, form.channels, form.size, form.size, generator=generator)
    coarse = torch.rand(count, form.channels, 4, 4, generator=generator)
    smooth = nn.functional.interpolate(coarse, (form.size, form.size), mode="bilinear")
    return to_float(((smooth + 0.2 * pixels) / 1.2), form.mean, form.std)


@torch.no_grad()
def check_parity(what: str, expected: Runner, found: Runner, form: InputSpec) -> float:
    """The largest relative difference of logits; refused when it is too large or a class differs."""
    worst = 0.0
    for count in (1, 2, 5):
        images = example_batch(form, count)
        ours, theirs = expected(images).double(), found(images).double()
        if ours.shape != theirs.shape:
            raise ModelError(
                f"{what} gives {tuple(theirs.shape)} for {count} images, but the network {tuple(ours.shape)}."
            )
        difference = float((ours - theirs).abs().max() / ours.abs().max().clamp_min(1.0))
        same = torch.equal(ours.argmax(1), theirs.argmax(1)) or _tied(ours)
        if not difference <= TOLERANCE or not same:
            raise ModelError(
                f"{what} does not compute what the network computes: logits differ by {difference:.1e} "
                f"(allowed {TOLERANCE:.0e}){'' if same else ', and so do classes'}. The file was not written."
            )
        worst = max(worst, difference)
    return worst


def _tied(logits: Tensor) -> bool:
    """Whether two classes are so near each other that rounding decides between them."""
    if logits.shape[1] < 2:
        return True
    top = logits.topk(2, dim=1).values
    return bool(((top[:, 0] - top[:, 1]) <= TOLERANCE * top.abs().max().clamp_min(1.0)).any())
