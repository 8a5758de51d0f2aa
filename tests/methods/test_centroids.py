"""Pseudo-labels by class centroids: the formula as a loop, and what they are for."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from residapt.methods.extras.pseudo import Centroids


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def unit(row: list[float]) -> list[float]:
    longer = [*row, 1.0]
    length = math.sqrt(sum(v * v for v in longer))
    return [v / length for v in longer]


def test_labels_as_a_loop_with_older_features_fading() -> None:
    batches = [(normal(6, 2, seed=k), 2 * normal(6, 3, seed=9 + k)) for k in range(3)]
    centroids = Centroids(3, 2, 0.5, torch.zeros(1).double())
    sums = [[0.0] * 3 for _ in range(3)]
    for features, logits in batches:
        centroids.observe(features, logits)
        sums = [[0.5 * v for v in row] for row in sums]
        for f, p in zip(features.tolist(), logits.softmax(1).tolist(), strict=True):
            sums = [[v + p[k] * x for v, x in zip(row, unit(f), strict=True)] for k, row in enumerate(sums)]
    torch.testing.assert_close(centroids.sums, torch.tensor(sums).double())
    asked = normal(8, 2, seed=33)
    found = []
    for f in asked.tolist():
        cosines = []
        for row in sums:
            length = math.sqrt(sum(v * v for v in row))
            cosines.append(sum(a * b for a, b in zip(unit(f), row, strict=True)) / length)
        found.append(cosines.index(max(cosines)))
    assert centroids.labels(asked).tolist() == found


def test_clusters_mend_a_classifier_that_errs_on_some_of_each() -> None:
    """Three clusters; a fifth of each is predicted as another class. The centroids put all of them right."""
    labels = torch.arange(60) % 3
    features = 4 * torch.eye(3, dtype=torch.float64)[labels] + 0.3 * normal(60, 3)
    wrong = torch.where(torch.arange(60) < 12, (labels + 1) % 3, labels)
    centroids = Centroids(3, 3, 0.98, features)
    centroids.observe(features, 5 * torch.nn.functional.one_hot(wrong, 3).double())
    assert (wrong == labels).float().mean() == 0.8
    assert torch.equal(centroids.labels(features), labels)
