r"""ADDA (Tzeng et al. 2017): a target network that a domain classifier takes for the fixed source network.

The target network :math:`M_t` starts as a copy of the source network :math:`M_s`, which stays as it is. The
domain classifier D minimises its usual loss on both; the target network minimises

.. math:: \tfrac12\,E_{x \sim t}\big[-\log D_{source}(M_t(x))\big]

The half comes from the authors' code: the flipped loss is averaged over source and target samples, and the
source half gives no gradient. There D reads the logits (10-500-500-2, here with one output instead of two),
and all layers, the last included, are adapted.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from residapt.data.batches import Batch
from residapt.losses.adversarial import domain_accuracy, domain_logits, domain_loss, frozen
from residapt.methods.base import AdaptingMethod
from residapt.methods.config import MethodConfig
from residapt.methods.discrepancy import build_own_discrepancy
from residapt.methods.discrepancy.base import Adversarial, DiscrepancyLosses
from residapt.methods.registry import register
from residapt.methods.separate import SeparateStreams
from residapt.streams import Outputs
from residapt.train.method import Losses, weighted_sum


class ADDA(AdaptingMethod):
    """A fixed source network, a target network of its own, and the domain classifier between them."""

    name = "adda"
    streams: SeparateStreams

    def __init__(self, streams: SeparateStreams, adversary: Adversarial, config: MethodConfig) -> None:
        super().__init__(config)
        self.streams, self.adversary = streams, adversary
        streams.fix_base()

    def losses(self, batch: Batch, progress: float) -> Losses:
        """Mapping loss of the target network and the domain classifier's own."""
        batch, inner = self.changed(batch), self.adversary.inner
        counts = self.source_weights(batch.labels)
        source = self.streams.outputs(batch.source, stream="source", inner=inner)
        target = self.streams.outputs(batch.target, stream="target", inner=inner)
        found = self._mapping(source, target, counts)
        assert found.own is not None
        parts = {"confusion": found.network, "domain": found.own}
        weights = {"confusion": self.pull * self.config.discrepancy.weight_at(progress)}
        if batch.few is not None and batch.few_labels is not None:
            parts["target_class"] = functional.cross_entropy(self.streams(batch.few, stream="target"), batch.few_labels)
            weights["target_class"] = self.config.few_weight
        watch = dict(found.watch)
        self.add_terms(parts, weights, watch, batch=batch, source=source, target=target, progress=progress)
        return weighted_sum(parts, weights, watch)

    def further_losses(self) -> Iterator[Tensor]:
        """Those of the domain classifier."""
        return self.adversary.further_losses()

    def _mapping(self, source: Outputs, target: Outputs, counts: Tensor | None) -> DiscrepancyLosses:
        (f_s, f_t), classifier = self.adversary.both_inputs(source, target), self.adversary.classifier
        weights = self.adversary.weights(source, target, counts)
        self.adversary.keep(f_s, f_t, weights)
        logits = domain_logits(classifier, f_s, f_t.detach())
        with frozen(classifier):
            mapped = classifier(f_t)
        as_source = functional.binary_cross_entropy_with_logits(mapped, torch.ones_like(mapped))
        own = domain_loss(logits, weights)
        return DiscrepancyLosses(0.5 * as_source, own, {"domain_accuracy": domain_accuracy(logits)})

    def groups(self) -> dict[str, list[nn.Parameter]]:
        """The target network is the network; the source network is frozen and in no group."""
        return {
            "network": list(self.streams.target_parameters.parameters()),
            "transform": [],
            "adversary": list(self.adversary.parameters()),
        }


@register("adda")
def build(model: nn.Module, config: MethodConfig, example: Tensor) -> ADDA:
    """ADDA: a target network that a domain classifier takes for the fixed source network. Tzeng et al. 2017."""
    streams = SeparateStreams(model, config.transform)
    adversary = build_own_discrepancy(config.discrepancy, "flip", streams, example, method="adda")
    assert isinstance(adversary, Adversarial)  # every other kind has been rejected
    return ADDA(streams, adversary, config)
