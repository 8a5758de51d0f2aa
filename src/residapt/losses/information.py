"""Information maximisation on unlabelled predictions: sure about each sample, not about one class for all."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from residapt.errors import DataError


def entropy(logits: Tensor) -> Tensor:
    r"""Entropy of each row's softmax in nats, :math:`H(p) = -\sum_k p_k \log p_k`; shape (samples,).

    It reads logits, not probabilities: where a probability underflows to 0, its logarithm and the gradient
    stay finite.
    """
    log_p = torch.log_softmax(logits, dim=-1)
    return -(log_p.exp() * log_p).sum(dim=-1)


def log_mean_prediction(logits: Tensor) -> Tensor:
    r"""Logarithm of the mean softmax over the batch, :math:`\log \bar p`; shape (classes,)."""
    return torch.logsumexp(torch.log_softmax(logits, dim=-1), dim=0) - math.log(len(logits))


def information_maximisation(logits: Tensor, prior: Tensor | None = None) -> Tensor:
    r"""Mean entropy minus diversity, to be minimised (Krause et al. 2010; Liang et al. 2020).

    .. math:: \frac1n\sum_i H(p_i) - H(\bar p)
        \qquad\text{or, with a prior } \pi,\qquad
        \frac1n\sum_i H(p_i) + \mathrm{KL}(\bar p \,\|\, \pi)

    Without a prior, its minimum :math:`-\log K` asks for equally frequent classes. With one, the minimum is
    0, at sure predictions whose class frequencies are :math:`\pi`. A flat prior gives the first form plus
    :math:`\log K`.
    """
    if logits.ndim != 2 or not len(logits):
        raise DataError(f"information_maximisation needs logits (samples, classes), got {tuple(logits.shape)}.")
    log_mean = log_mean_prediction(logits)
    log_prior = 0.0 if prior is None else _log_prior(prior, logits)
    return entropy(logits).mean() + (log_mean.exp() * (log_mean - log_prior)).sum()


def _log_prior(prior: Tensor, logits: Tensor) -> Tensor:
    if prior.shape != logits.shape[1:]:
        raise DataError(
            f"information_maximisation: the prior has shape {tuple(prior.shape)}, "
            f"but there are {logits.shape[1]} classes. Give one frequency per class."
        )
    prior = prior.detach().to(logits)
    # The floor keeps the divergence finite for a class whose estimated frequency is 0.
    return (prior / prior.sum()).clamp_min(torch.finfo(logits.dtype).eps).log()
