"""Discrepancies without parameters of their own: distances between the moments of two sets of features."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from residapt.losses.gather import gather_features
from residapt.losses.moments import coral, gaussian_mmd, linear_mmd, median_rbf_mmd
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


DISTANCES: dict[str, Distance] = {
    "mmd": linear_mmd,
    "rbf_mmd": median_rbf_mmd,
    "mk_mmd": gaussian_mmd,
    "coral": coral,
}
"""Every distance by the name that ``discrepancy.kind`` has."""
