r"""Do predicted probabilities mean what they say, and which images look like no class?

Calibration error and reliability (Guo et al. 2017) need labels; the temperature is fitted on labelled source images,
so that it needs none of the target. Images that look like no class are found by the energy of their logits (Liu et al.
2020) and their distance from the class centroids (Lee et al. 2018).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from residapt.errors import DataError
from residapt.evaluate.evidence import Evidence
from residapt.settings import Settings

BINS = 15
"""Intervals of confidence, as in the publications."""
COOLEST, HOTTEST = 0.05, 20.0
"""Range of temperatures: without mistakes the likelihood has no maximum."""
USUAL = 0.99
"""Share of the held-out source images that an image must exceed to look like no class."""


class ReliabilityBin(Settings):
    """Predictions of about the same confidence."""

    confidence: float
    """Their mean confidence."""
    accuracy: float
    """Share of them that are right."""
    images: int
    """How many there are."""


class Calibration(Settings):
    """How well the confidence of predictions agrees with how often they are right."""

    error: float
    """Expected calibration error (ECE): mean distance of confidence and accuracy over the bins, by their sizes."""
    temperature: float = 1.0
    """Logits were divided by it."""
    bins: list[ReliabilityBin]
    """Bins with at least one image, from low to high confidence."""


def calibration(logits: Tensor, labels: Tensor, *, temperature: float = 1.0, bins: int = BINS) -> Calibration:
    """Reliability of logits (n, classes) against labels (n,), in intervals of confidence of equal width."""
    if not len(labels):
        raise DataError("calibration needs at least one labelled image, got none.")
    confidence, predicted = (logits.double() / temperature).softmax(1).max(1)
    right = (predicted == labels).double()
    # Intervals are open on the left, so that a confidence of 1 lies in the last one.
    places = (confidence * bins).ceil().long().clamp(1, bins) - 1
    counts = torch.bincount(places, minlength=bins)
    sums = [torch.bincount(places, weights=values, minlength=bins) for values in (confidence, right)]
    found = [
        ReliabilityBin(confidence=float(sums[0][i] / n), accuracy=float(sums[1][i] / n), images=int(n))
        for i, n in enumerate(counts.tolist())
        if n
    ]
    error = sum(one.images * abs(one.confidence - one.accuracy) for one in found) / len(labels)
    return Calibration(error=error, temperature=temperature, bins=found)


def fit_temperature(logits: Tensor, labels: Tensor) -> float:
    r"""The temperature :math:`T` that maximises the likelihood of the labels under :math:`\mathrm{softmax}(z/T)`.

    The negative log-likelihood is convex in :math:`\beta = 1/T`, so that the root of its derivative
    :math:`\frac1n\sum_i \mathbb E_{p_i}[z_i] - z_{i,y_i}` is found by bisection; clipped to
    [:data:`COOLEST`, :data:`HOTTEST`].
    """
    z = logits.double()
    z = z - z.gather(1, labels[:, None])
    low, high = 1 / HOTTEST, 1 / COOLEST
    for _ in range(60):
        middle = math.sqrt(low * high)
        slope = ((middle * z).softmax(1) * z).sum(1).mean()
        low, high = (low, middle) if slope > 0 else (middle, high)
    return 1 / math.sqrt(low * high)


def energy(logits: Tensor) -> Tensor:
    r""":math:`-\log\sum_k e^{z_k}` of each row: high where no class has a large logit."""
    return -logits.double().logsumexp(1)


def centroid_distance(features: Tensor, source_features: Tensor, source_labels: Tensor) -> Tensor:
    """Distance of each row to the nearest class centroid of the source, in units of the spread within classes."""
    scale, means, counts = _standardised_centroids(source_features, source_labels)
    return torch.cdist(features.double() / scale, means[counts > 0]).amin(1)


def own_centroid_distance(source_features: Tensor, source_labels: Tensor) -> Tensor:
    """The same for the source images themselves: each is left out of the centroid of its own class."""
    scale, means, counts = _standardised_centroids(source_features, source_labels)
    distances = torch.cdist(source_features.double() / scale, means)
    distances[:, counts == 0] = torch.inf
    rows, n = torch.arange(len(source_labels)), counts[source_labels].double()
    # x - (n m - x) / (n - 1) = (x - m) n / (n - 1)
    own = distances[rows, source_labels] * n / (n - 1)
    distances[rows, source_labels] = torch.where(n > 1, own, torch.inf)  # alone in its class: no centroid is left
    return distances.amin(1)


def _standardised_centroids(features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Standard deviation of each feature within classes, centroids in these units, and images of each class."""
    x = features.double()
    classes = int(labels.max()) + 1
    counts = torch.bincount(labels, minlength=classes)
    means = x.new_zeros(classes, x.shape[1]).index_add_(0, labels, x) / counts.clamp_min(1)[:, None]
    within = (x - means[labels]).square().mean(0).sqrt()
    scale = within.clamp_min(1e-6 * float(within.max()) or 1.0)  # features that never vary
    return scale, means / scale, counts


def unusualness(evidence: Evidence) -> Tensor:
    """How little each target image looks like any class: energy plus distance from the nearest centroid.

    Both are counted from their median over the target in units of their median deviation, so that they can be added,
    and so that a difference between the domains, which all images share, plays no part.
    """
    return sum((_robust(values) for values in _target_measures(evidence)), torch.zeros(()))


def beyond_source(evidence: Evidence) -> Tensor:
    """Which target images are above :data:`USUAL` of the held-out source images in both energy and distance."""
    source = (energy(evidence.source_logits), own_centroid_distance(evidence.source_features, evidence.source_labels))
    above = [t > _quantile(s, USUAL) for s, t in zip(source, _target_measures(evidence), strict=True)]
    return above[0] & above[1]


def _target_measures(evidence: Evidence) -> tuple[Tensor, Tensor]:
    distance = centroid_distance(evidence.target_features, evidence.source_features, evidence.source_labels)
    return energy(evidence.target_logits), distance


def _robust(values: Tensor) -> Tensor:
    centred = values - values.median()
    deviation = float(centred.abs().median())
    return centred / deviation if deviation > 0 else centred


def _quantile(values: Tensor, share: float) -> float:
    """torch.quantile refuses more than 16 million values."""
    ordered = values.sort().values
    return float(ordered[min(len(ordered) - 1, int(share * len(ordered)))])
