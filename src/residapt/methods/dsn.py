r"""Domain Separation Networks (Bousmalis et al. 2016): private and shared features; a decoder needs both.

.. math:: L = L_{task} + \alpha L_{recon} + \beta L_{difference} + \gamma L_{similarity}

* :math:`L_{recon}`: scale-invariant squared error of both domains, decoded from shared plus private features;
* :math:`L_{difference}`: soft orthogonality of shared and private features, both domains;
* :math:`L_{similarity}`: a discrepancy of the shared features, by gradient reversal unless
  ``discrepancy.kind`` says otherwise (``mk_mmd`` is the paper's other one).

The shared encoder and the classifier are the network as given; its features are what ``dsn.layer`` names.
Private encoders and decoder are built for the shape of the input. Until ``dsn.start_share`` of the training
only :math:`L_{task}` counts.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from residapt.data.batches import Batch
from residapt.losses.classification import weighted_cross_entropy
from residapt.losses.gather import gather_features
from residapt.losses.reconstruction import difference_loss, scale_invariant_mse
from residapt.methods.alignment import Alignment
from residapt.methods.config import MethodConfig
from residapt.methods.discrepancy import build_discrepancy
from residapt.methods.discrepancy.base import Discrepancy
from residapt.methods.discrepancy.layers import PENULTIMATE, resolve_layer
from residapt.methods.dsn_networks import decoder, private_encoder
from residapt.methods.registry import probe, register, shared_streams
from residapt.streams import Outputs, TwoStream
from residapt.train.method import Losses, weighted_sum


class DSN(Alignment):
    """One network for both domains, a private encoder for each, and a decoder."""

    name = "dsn"

    def __init__(
        self,
        two: TwoStream,
        discrepancy: Discrepancy,
        config: MethodConfig,
        *,
        layer: str,
        shape: torch.Size,
        width: int,
    ) -> None:
        super().__init__(two, discrepancy, config, select_ranks=False)
        self.layer = layer
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.discrepancy.seed)
            self.private = nn.ModuleDict({domain: private_encoder(shape, width) for domain in ("source", "target")})
            self.decoder = decoder(shape, width)

    @property
    def inner(self) -> tuple[str, ...]:
        """What the discrepancy reads, and the shared features."""
        return (*super().inner, self.layer)

    def discrepancy_weight(self, progress: float) -> float:
        r""":math:`\gamma` times the weight that every method's discrepancy has."""
        return self.config.dsn.gamma * super().discrepancy_weight(progress)

    def losses(self, batch: Batch, progress: float) -> Losses:
        """All four terms, or the classification loss alone in the first part of the training."""
        if progress >= self.config.dsn.start_share:
            return super().losses(batch, progress)
        batch = self.changed(batch)
        counts = self.source_weights(batch.labels)
        parts = {"class": weighted_cross_entropy(self.two(batch.source), batch.labels, counts)}
        if batch.few is not None and batch.few_labels is not None:
            parts["target_class"] = functional.cross_entropy(self.two(batch.few, stream="target"), batch.few_labels)
        return weighted_sum(parts, {"target_class": self.config.few_weight})

    def more_losses(self, batch: Batch, source: Outputs, target: Outputs) -> dict[str, tuple[float, Tensor]]:
        """Reconstruction and difference, each summed over the domains."""
        terms = [
            self._separate(batch.source, source, "source"),
            self._separate(batch.target, target, "target"),
        ]
        settings = self.config.dsn
        return {
            "reconstruction": (settings.alpha, terms[0][0] + terms[1][0]),
            "difference": (settings.beta, terms[0][1] + terms[1][1]),
        }

    def _separate(self, x: Tensor, outputs: Outputs, domain: str) -> tuple[Tensor, Tensor]:
        """Reconstruction and difference of one domain; shared and private features are added."""
        shared = outputs.inner[self.layer].flatten(1)
        private = self.private[domain](x)
        return scale_invariant_mse(self.decoder(shared + private), x), difference_loss(
            gather_features(private), gather_features(shared)
        )


@register("dsn")
def build(model: nn.Module, config: MethodConfig, example: Tensor) -> DSN:
    """Private encoders and decoder fit the shape of the input."""
    two = shared_streams(model, config)
    layer = resolve_layer(two, config.dsn.layer or PENULTIMATE, example)
    assert layer is not None
    width = probe(two, example, (layer,)).inner[layer].flatten(1).shape[1]
    discrepancy = build_discrepancy(config.discrepancy, "reversal", two, example)
    made = DSN(two, discrepancy, config, layer=layer, shape=example.shape[1:], width=width)
    made.private.to(example)
    made.decoder.to(example)
    return made
