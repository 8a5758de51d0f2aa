r"""Domain classifiers, and what they ask of the features (paper Eq. 5-6; Ganin et al. 2016; Tzeng et al. 2015).

Source samples have domain label 1, target samples 0. Three ways to confuse the classifier:

* ``flip``: cross-entropy with flipped labels on both domains (Eq. 6). Strong where the classifier is confident.
* ``reversal``: the negative of the classifier's own loss (gradient reversal). Vanishes where it is confident.
* ``uniform``: cross-entropy to the uniform distribution (domain confusion, Tzeng et al. 2015).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional

from residapt.losses.gather import sum_processes

Confusion = Literal["flip", "reversal", "uniform"]


class DomainClassifier(nn.Sequential):
    """A perceptron with ReLU that gives one logit: positive for source."""

    def __init__(self, inputs: int, hidden: Sequence[int] = (500, 500), *, dropout: float = 0.0) -> None:
        layers: list[nn.Module] = []
        for before, width in pairwise((inputs, *hidden)):
            layers += [nn.Linear(before, width), nn.ReLU()]
            if dropout > 0:
                layers.append(nn.Dropout(dropout))
        layers.append(nn.Linear(hidden[-1] if hidden else inputs, 1))
        super().__init__(*layers)

    def forward(self, features: Tensor) -> Tensor:
        """Logits of shape (batch,)."""
        logits: Tensor = super().forward(features)  # type: ignore[no-untyped-call]
        return logits.squeeze(1)


class DomainLogits(NamedTuple):
    """A domain classifier's logits of both domains."""

    source: Tensor
    target: Tensor


def domain_logits(classifier: nn.Module, source: Tensor, target: Tensor) -> DomainLogits:
    """Logits of both domains in one pass."""
    logits = classifier(torch.cat([source, target]))
    return DomainLogits(logits[: len(source)], logits[len(source) :])


def domain_loss(logits: DomainLogits, weights: DomainLogits | None = None) -> Tensor:
    r""":math:`L_{DC}(y)` of Eq. 5: what the domain classifier minimises."""
    return _cross_entropy(logits, 1.0, 0.0, weights)


def flipped_loss(logits: DomainLogits, weights: DomainLogits | None = None) -> Tensor:
    r""":math:`L_{disc} = L_{DC}(1 - y)` of Eq. 6: what the network minimises."""
    return _cross_entropy(logits, 0.0, 1.0, weights)


def uniform_loss(logits: DomainLogits, weights: DomainLogits | None = None) -> Tensor:
    """Cross-entropy to the uniform distribution over the domains (Tzeng et al. 2015)."""
    return _cross_entropy(logits, 0.5, 0.5, weights)


def _cross_entropy(logits: DomainLogits, source: float, target: float, weights: DomainLogits | None) -> Tensor:
    scores = torch.cat(logits)
    labels = torch.cat([torch.full_like(logits.source, source), torch.full_like(logits.target, target)])
    weight = None if weights is None else torch.cat(weights)
    return functional.binary_cross_entropy_with_logits(scores, labels, weight)


class _Reverse(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return -ctx.scale * gradients[0], None


def reverse_gradient(x: Tensor, scale: float = 1.0) -> Tensor:
    """Identity whose gradient is multiplied by ``-scale`` (Ganin et al. 2016)."""
    return _Reverse.apply(x, scale)  # type: ignore[no-any-return]


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Within this context a pass through ``module`` gives no gradients to its parameters.

    Args:
        module: For instance the domain classifier, while the network learns to confuse it.

    Example:
        >>> classifier = nn.Linear(2, 1)
        >>> x = torch.ones(3, 2, requires_grad=True)
        >>> with frozen(classifier):
        ...     classifier(x).sum().backward()
        >>> classifier.weight.grad is None, x.grad is None
        (True, False)
    """
    parameters = [p for p in module.parameters() if p.requires_grad]
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)


def unit_scale(source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both divided by the root mean square of all their entries, which is a constant for the gradient.

    What the domain classifier reads then has one scale, however far the features (logits above all) grow in training.
    """
    total = torch.stack([x.detach().float().square().sum() for x in (source, target)]).sum()
    sums = sum_processes(torch.stack([total, total.new_tensor(float(source.numel() + target.numel()))]))
    scale = (sums[0] / sums[1]).sqrt().clamp_min(1e-12)
    return source / scale.to(source.dtype), target / scale.to(target.dtype)


@torch.no_grad()
def domain_accuracy(logits: DomainLogits) -> Tensor:
    """Share of samples whose domain is recognised; 0.5 means confused, 1 means fully separable."""
    return torch.cat([logits.source > 0, logits.target <= 0]).float().mean()
