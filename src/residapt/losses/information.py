"""Information maximisation on unlabelled predictions: confident about each sample, not about one class for all."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from residapt.errors import DataError


def entropy(logits: Tensor) -> Tensor:
    r"""Entropy of each row's softmax in nats, :math:`H(p) = -\sum_k p_k \log p_k`; shape (samples,).

    It reads logits, not probabilities: where a probability underflows to 0, its logarithm and the gradient
    stay finite.
    """
    log_p = torch.log_softmax(logits, dim=-1)
    return -(log_p.exp() * log_p).sum(dim=-1)


def information_maximisation(logits: Tensor, prior: Tensor | None = None, *, diversity: float = 1.0) -> Tensor:
    r"""Mean entropy minus diversity, to be minimised (Krause et al. 2010; Liang et al. 2020).

    .. math:: \frac1n\sum_i H(p_i) - d\,H(\bar p)
        \qquad\text{or, with a prior } \pi,\qquad
        \frac1n\sum_i H(p_i) + d\,\mathrm{KL}(\bar p \,\|\, \pi)

    Without a prior, its minimum :math:`-d \log K` asks for equally frequent classes. With one, the minimum is
    0, at confident predictions whose class frequencies are :math:`\pi`. A flat prior gives the first form plus
    :math:`d \log K`. ``diversity`` is :math:`d`: below 1, confident predictions count more than frequencies
    that are only assumed.
    """
    if logits.ndim != 2 or not len(logits):
        raise DataError(f"information_maximisation needs logits (samples, classes), got {tuple(logits.shape)}.")
    wide = logits.float() if logits.element_size() < 4 else logits
    log_prior = wide.new_zeros(()) if prior is None else _log_prior(prior, wide)
    return _Information.apply(wide, log_prior, diversity)  # type: ignore[no-any-return]


def class_confusion(logits: Tensor, temperature: float = 2.5) -> Tensor:
    r"""Minimum class confusion (Jin et al. 2020), to be minimised.

    With probabilities :math:`p_i` at the given temperature and weights :math:`w_i \propto 1 + e^{-H(p_i)}` of mean 1,

    .. math:: C_{jk} = \sum_i w_i\, p_{ij}\, p_{ik}, \qquad
        L = \frac1K \sum_j \sum_{k \ne j} \frac{C_{jk}}{\sum_l C_{jl}}

    It is small where no sample is between two classes, whatever the class frequencies are. The weights carry no
    gradient.
    """
    if logits.ndim != 2 or not len(logits):
        raise DataError(f"class_confusion needs logits (samples, classes), got {tuple(logits.shape)}.")
    log_p = torch.log_softmax(logits.float() / temperature if logits.element_size() < 4 else logits / temperature, 1)
    p = log_p.exp()
    weights = 1 + torch.exp((p * log_p).sum(dim=1).detach())
    weights = weights * len(p) / weights.sum()
    together = (p * weights[:, None]).T @ p
    rows = together / together.sum(dim=1, keepdim=True)
    return 1 - rows.diagonal().mean()


class _Information(Function):
    r"""The value with its gradient by hand: on a small batch a chain of tiny operations costs more than their result.

    .. math:: \frac{\partial L}{\partial p_{ik}} =
        \frac1n \bigl(d\,(\log\bar p_k - \log\pi_k) - \log p_{ik}\bigr) + \text{const}
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, log_prior: Tensor, diversity: float) -> Tensor:
        log_p = torch.log_softmax(logits, dim=1)
        p = log_p.exp()
        # By way of logarithms, so that a class that underflows in every row has a finite one.
        from_prior = torch.logsumexp(log_p, dim=0) - math.log(len(p)) - log_prior
        # Both terms at once: the mean prediction of a class is the mean over the rows.
        by_p = diversity * from_prior - log_p
        rows = (p * by_p).sum(dim=1, keepdim=True)
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(p * (by_p - rows) / len(p))
        return rows.mean()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return gradients[0] * ctx.saved_tensors[0], None, None


def _log_prior(prior: Tensor, logits: Tensor) -> Tensor:
    if prior.shape != logits.shape[1:]:
        raise DataError(
            f"information_maximisation: the prior has shape {tuple(prior.shape)}, "
            f"but there are {logits.shape[1]} classes. Give one frequency per class."
        )
    prior = prior.detach().to(logits)
    # The floor keeps the divergence finite for a class whose estimated frequency is 0.
    return (prior / prior.sum()).clamp_min(torch.finfo(logits.dtype).eps).log()
