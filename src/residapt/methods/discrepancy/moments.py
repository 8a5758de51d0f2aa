"""Discrepancies without parameters of their own: distances between the moments of two sets of features."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor

from residapt.losses.gather import gather_features
from residapt.losses.moments import coral, gaussian_mmd, linear_mmd, median_bandwidths, rbf_mmd
from residapt.methods.config import DiscrepancyConfig
from residapt.methods.discrepancy.base import Discrepancy, DiscrepancyLosses
from residapt.streams import Outputs

Distance = Callable[..., Tensor]
"""Of source features, target features and, as ``weights``, weights of the source samples."""


class Moments(Discrepancy):
    """A distance of the features' distributions, minimised as it is."""

    def __init__(self, distance: Distance, *, layer: str | None = None) -> None:
        super().__init__(layer)
        self.distance = distance

    def forward(self, source: Outputs, target: Outputs, prior: Tensor | None = None) -> DiscrepancyLosses:
        """The distance over the batch of all processes; there is nothing to train in it."""
        f_s, f_t = gather_features(self.features(source)), gather_features(self.features(target))
        return DiscrepancyLosses(self.distance(f_s, f_t, weights=None if prior is None else gather_features(prior)))


def distance_named(kind: str, config: DiscrepancyConfig) -> Distance:
    """The distance of that name with the configuration's kernels."""
    if kind == "rbf_mmd":
        return median_rbf_mmd if config.sigma is None else partial(rbf_mmd, sigma=config.sigma)
    if kind == "mk_mmd":
        return gaussian_mmd
    return {"mmd": linear_mmd, "coral": coral}[kind]


def median_rbf_mmd(source: Tensor, target: Tensor, weights: Tensor | None = None) -> Tensor:
    """MMD with one kernel, as wide as the batch's median squared distance."""
    return gaussian_mmd(source, target, median_bandwidths(source, target, (1.0,)), weights)
