"""How far apart the two domains' outputs are: the term that methods differ in (paper §3.2, Appendix B)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from residapt.losses.adversarial import (
    Confusion,
    DomainClassifier,
    DomainLogits,
    domain_accuracy,
    domain_logits,
    domain_loss,
    flipped_loss,
    frozen,
    reverse_gradient,
    uniform_loss,
    unit_scale,
)
from residapt.streams import Outputs


@dataclass(frozen=True)
class DiscrepancyLosses:
    """``network`` pulls the domains together; ``own`` trains parameters of the discrepancy itself."""

    network: Tensor
    own: Tensor | None = None
    watch: dict[str, Tensor] = field(default_factory=dict)


class Discrepancy(nn.Module, ABC):
    """A discrepancy between the streams' outputs, read at ``layer`` (None: the outputs' features)."""

    def __init__(self, layer: str | None = None) -> None:
        super().__init__()
        self.layer = layer

    @property
    def inner(self) -> tuple[str, ...]:
        """Inner layers that the outputs must hold."""
        return () if self.layer is None else (self.layer,)

    def features(self, outputs: Outputs) -> Tensor:
        """What is compared, shape (samples, width)."""
        return outputs.features if self.layer is None else outputs.inner[self.layer].flatten(1)

    @abstractmethod
    def forward(self, source: Outputs, target: Outputs, prior: Tensor | None = None) -> DiscrepancyLosses:
        """The losses of one step; ``prior`` holds a weight for each source sample."""

    def further_losses(self) -> Iterator[Tensor]:
        """Losses of further steps of the discrepancy's own parameters, on the batch of the last call."""
        return iter(())


class Adversarial(Discrepancy):
    """A domain classifier that the network confuses (Eq. 5-6).

    Both losses are differentiated in one backward pass: the network's goes through the classifier with its
    parameters frozen, the classifier's own sees detached features. That is one step of each, on the same
    batch; with ``steps`` the classifier makes further ones, for which its inputs are kept.
    """

    def __init__(
        self,
        width: int,
        *,
        confusion: Confusion,
        hidden: tuple[int, ...],
        dropout: float,
        seed: int,
        layer: str | None = None,
        steps: int = 1,
        normalise: bool = False,
    ) -> None:
        super().__init__(layer)
        self.confusion, self.steps = confusion, steps
        self.normalise = normalise
        self._kept: tuple[Tensor, Tensor, DomainLogits | None] | None = None
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.classifier = DomainClassifier(width, hidden, dropout=dropout)

    def inputs(self, outputs: Outputs) -> Tensor:
        """What the domain classifier reads."""
        return self.features(outputs)

    def both_inputs(self, source: Outputs, target: Outputs) -> tuple[Tensor, Tensor]:
        """What it reads of both domains, brought to one scale where that is set."""
        f_s, f_t = self.inputs(source), self.inputs(target)
        return unit_scale(f_s, f_t) if self.normalise else (f_s, f_t)

    def weights(self, source: Outputs, target: Outputs, prior: Tensor | None = None) -> DomainLogits | None:
        """Weights of the samples in both losses: those of the prior for the source, 1 for the target."""
        return None if prior is None else DomainLogits(prior, torch.ones_like(target.logits[:, 0], dtype=prior.dtype))

    def keep(self, f_s: Tensor, f_t: Tensor, weights: DomainLogits | None) -> None:
        """Remember what the classifier reads, if it makes further steps."""
        if self.steps > 1:
            self._kept = (f_s.detach(), f_t.detach(), weights)

    def further_losses(self) -> Iterator[Tensor]:
        """The domain classifier's own loss again, ``steps`` - 1 times."""
        kept, self._kept = self._kept, None
        if kept is not None:
            for _ in range(self.steps - 1):
                yield domain_loss(domain_logits(self.classifier, kept[0], kept[1]), kept[2])

    def forward(self, source: Outputs, target: Outputs, prior: Tensor | None = None) -> DiscrepancyLosses:
        """Losses of the network and of the domain classifier."""
        (f_s, f_t), weights = self.both_inputs(source, target), self.weights(source, target, prior)
        self.keep(f_s, f_t, weights)
        if self.confusion == "reversal":
            logits = domain_logits(self.classifier, f_s.detach(), f_t.detach())
            with frozen(self.classifier):
                reversed_logits = domain_logits(self.classifier, reverse_gradient(f_s), reverse_gradient(f_t))
            network = domain_loss(reversed_logits, weights)
        else:
            logits = domain_logits(self.classifier, f_s.detach(), f_t.detach())
            with frozen(self.classifier):
                confused = domain_logits(self.classifier, f_s, f_t)
            network = (flipped_loss if self.confusion == "flip" else uniform_loss)(confused, weights)
        own = domain_loss(logits, weights)
        return DiscrepancyLosses(network, own, {"domain_accuracy": domain_accuracy(logits)})
