"""Soft neighbourhood density (Saito et al. 2021): has each target sample many alike predictions around it?"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from residapt.errors import ConfigError, DataError
from residapt.evaluate.evidence import Evidence, subset

BLOCK_ENTRIES = 2**21
"""Similarities held at once (16 MB in double precision), whatever the number of samples."""

SAMPLE = 5_000
"""Most target samples; of larger sets a part is taken."""


def snd(evidence: Evidence, *, temperature: float = 0.05, subsample: int | None = SAMPLE, seed: int = 0) -> float:
    r"""Mean entropy of each target sample's softmax over its similarities to the others; higher is better.

    .. math:: S_{ij} = \hat p_i^\top \hat p_j / \tau, \qquad S_{ii} = -1/\tau, \qquad
        \frac1n \sum_i H(\mathrm{softmax}(S_{i:}))

    with :math:`\hat p` the softmax output scaled to length 1. Its largest value is the logarithm of the
    number of samples, so that values are comparable only between equal numbers. A network that predicts one
    class for everything has the highest score of all: never use it alone. ``subsample`` bounds the time,
    which is quadratic.
    """
    keep = subset(len(evidence.target_logits), subsample, seed)
    return neighbourhood_density(evidence.target_logits[keep].double().softmax(dim=1), temperature)


def neighbourhood_density(probabilities: Tensor, temperature: float) -> float:
    """The score of a matrix of predictions, in blocks of rows so that memory does not grow with n²."""
    if temperature <= 0:
        raise ConfigError(f"snd: temperature must be positive, got {temperature}. Its authors use 0.05.")
    n = len(probabilities)
    if n < 2:
        raise DataError(f"snd: neighbours need at least 2 target samples, got {n}.")
    p = functional.normalize(probabilities, dim=1)
    rows = max(1, BLOCK_ENTRIES // n)
    total = sum(_block_entropy(p, start, min(start + rows, n), temperature) for start in range(0, n, rows))
    return total / n


def _block_entropy(p: Tensor, start: int, stop: int, temperature: float) -> float:
    similarity = p[start:stop] @ p.T / temperature
    similarity[torch.arange(stop - start), torch.arange(start, stop)] = -1 / temperature
    # H = log Z - E[shifted] with Z the sum of the exponentials: one exponential per pair, the bulk of the time.
    shifted = similarity - similarity.amax(dim=1, keepdim=True)
    weights = shifted.exp()
    z = weights.sum(dim=1)
    return float((z.log() - (weights * shifted).sum(dim=1) / z).sum())
