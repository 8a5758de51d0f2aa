"""Features joined with predictions for the domain classifier: RMAN's random map, CDAN's product, weights."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from residapt.errors import ConfigError, DataError


class RandomMultilinear(nn.Module):
    r"""Random multilinear fusion of features ``f`` and class predictions ``g`` (RMAN, Long et al. 2017).

    .. math:: T(f, g) = \tfrac{1}{\sqrt D}\,(R_f f) \odot (R_g g)

    The matrices are drawn once, have zero mean and unit variance, are never trained, and are saved with the
    module: a domain classifier that was trained behind one draw is useless behind another. Inner products are
    kept on average, :math:`E\,T(f, g)^\top T(f', g') = (f^\top f')(g^\top g')`, which the full product would
    give exactly.
    """

    R_f: Tensor
    R_g: Tensor

    def __init__(
        self,
        features: int,
        classes: int,
        dim: int = 128,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if min(features, classes, dim) < 1:
            raise ConfigError(
                f"RandomMultilinear: all sizes must be at least 1, got features={features}, "
                f"classes={classes}, dim={dim}. The paper uses dim=128."
            )
        self.register_buffer("R_f", torch.randn(dim, features, generator=generator))
        self.register_buffer("R_g", torch.randn(dim, classes, generator=generator))

    def forward(self, f: Tensor, g: Tensor) -> Tensor:
        """The joint representation, shape (samples, dim)."""
        _check_rows(f, g)
        return (f @ self.R_f.T) * (g @ self.R_g.T) / math.sqrt(self.R_f.shape[0])

    def extra_repr(self) -> str:
        """Sizes, for ``print(model)``."""
        return f"features={self.R_f.shape[1]}, classes={self.R_g.shape[1]}, dim={self.R_f.shape[0]}"


def multilinear(f: Tensor, g: Tensor) -> Tensor:
    r"""CDAN's full map :math:`f \otimes g` (Long et al. 2018), flattened to (samples, features x classes)."""
    _check_rows(f, g)
    return torch.einsum("ni,nj->nij", f, g).flatten(start_dim=1)


def entropy_weights(probabilities: Tensor, prior: Tensor | None = None) -> Tensor:
    r"""CDAN+E's sample weights :math:`1 + e^{-H(g)}`, scaled to mean 1, without gradient.

    Call it once per domain: normalised over both, the domain with the more confident predictions would outweigh the
    other. Where the samples have ``prior`` weights already, both are multiplied, and the mean that is scaled
    to 1 is the one under those weights, as in a sample drawn with them.
    """
    entropies = torch.special.entr(probabilities.detach()).sum(dim=1)
    weights = 1 + torch.exp(-entropies)
    if prior is None:
        return weights / weights.mean()
    return prior * weights / ((prior * weights).sum() / prior.sum())


def _check_rows(f: Tensor, g: Tensor) -> None:
    if f.ndim != 2 or g.ndim != 2 or len(f) != len(g):
        raise DataError(
            "a multilinear map needs features and predictions of the same samples as two matrices, "
            f"got {tuple(f.shape)} and {tuple(g.shape)}. Flatten the features of each sample first."
        )
