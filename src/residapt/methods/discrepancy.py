"""How far apart the two domains' outputs are: the term that methods differ in (paper §3.2, Appendix B)."""

from __future__ import annotations

from abc import ABC, abstractmethod
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
    def forward(self, source: Outputs, target: Outputs) -> DiscrepancyLosses:
        """The losses of one step."""


class Adversarial(Discrepancy):
    """A domain classifier that the network confuses (Eq. 5-6).

    Both losses are differentiated in one backward pass: the network's goes through the classifier with its
    parameters frozen, the classifier's own sees detached features. That is one step of each, on the same
    batch.
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
    ) -> None:
        super().__init__(layer)
        self.confusion = confusion
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.classifier = DomainClassifier(width, hidden, dropout=dropout)

    def inputs(self, outputs: Outputs) -> Tensor:
        """What the domain classifier reads."""
        return self.features(outputs)

    def weights(self, source: Outputs, target: Outputs) -> DomainLogits | None:
        """Weights of the samples in both losses."""
        return None

    def forward(self, source: Outputs, target: Outputs) -> DiscrepancyLosses:
        """Losses of the network and of the domain classifier."""
        f_s, f_t, weights = self.inputs(source), self.inputs(target), self.weights(source, target)
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
        return DiscrepancyLosses(network, domain_loss(logits, weights), {"domain_accuracy": domain_accuracy(logits)})
