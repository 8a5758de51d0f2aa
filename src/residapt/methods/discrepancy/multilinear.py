"""RMAN and CDAN: the domain classifier reads features joined with predictions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from residapt.losses.adversarial import Confusion, DomainLogits
from residapt.losses.gather import gather_features, own_rows
from residapt.losses.multilinear import RandomMultilinear, entropy_weights, multilinear
from residapt.methods.config import DiscrepancyConfig
from residapt.methods.discrepancy.base import Adversarial
from residapt.streams import Outputs

RMAN_WIDTH = 128
"""D of the paper's Appendix B."""
CDAN_WIDTH = 1024
"""D where CDAN takes the random map (its authors' code)."""
LARGEST_PRODUCT = 4096
"""CDAN uses the full product of f and g up to this size, and the random map above it."""


class Joined(Adversarial):
    r"""A domain classifier on a map of features f and predictions g.

    The map is random, :math:`(R_f f) \odot (R_g g)/\sqrt D` (RMAN), or the whole product :math:`f \otimes g`
    (CDAN). With ``entropy`` each sample counts :math:`1 + e^{-H(g)}` (CDAN+E).
    """

    def __init__(
        self,
        layer: str,
        width: int,
        *,
        random_map: RandomMultilinear | None,
        probabilities: bool,
        detach: bool,
        entropy: bool,
        confusion: Confusion,
        config: DiscrepancyConfig,
    ) -> None:
        super().__init__(
            width,
            confusion=confusion,
            hidden=config.hidden,
            dropout=config.dropout,
            seed=config.seed,
            layer=layer,
            steps=config.steps,
            normalise=config.normalise,
        )
        self.random_map: nn.Module | None = random_map
        self.probabilities, self.detach, self.entropy = probabilities, detach, entropy

    def inputs(self, outputs: Outputs) -> Tensor:
        """Features and predictions, joined."""
        g = outputs.logits.softmax(dim=1) if self.probabilities else outputs.logits
        g = g.detach() if self.detach else g
        f = self.features(outputs)
        joined: Tensor = multilinear(f, g) if self.random_map is None else self.random_map(f, g)
        return joined

    def weights(self, source: Outputs, target: Outputs, prior: Tensor | None = None) -> DomainLogits | None:
        """Confident predictions count more, each domain normalised for itself (CDAN+E only)."""
        if not self.entropy:
            return super().weights(source, target, prior)
        g_s, g_t = (gather_features(outputs.logits.detach().softmax(dim=1)) for outputs in (source, target))
        whole = None if prior is None else gather_features(prior)
        return DomainLogits(own_rows(entropy_weights(g_s, whole)), own_rows(entropy_weights(g_t)))


def build_joined(kind: str, config: DiscrepancyConfig, features: int, classes: int, layer: str) -> Joined:
    """RMAN, CDAN or CDAN+E for features and predictions of the given widths."""
    settings, rman = config.multilinear, kind == "rman"
    width, random_map = features * classes, None
    if rman or width > LARGEST_PRODUCT:
        width = RMAN_WIDTH if rman else CDAN_WIDTH
        generator = torch.Generator().manual_seed(config.seed)
        random_map = RandomMultilinear(features, classes, width, generator=generator)
    return Joined(
        layer,
        width,
        random_map=random_map,
        probabilities=settings.g == "softmax",
        detach=not rman,  # as in CDAN's code
        entropy=kind == "cdan_e",
        confusion=settings.confusion or ("flip" if rman else "reversal"),
        config=config,
    )
