r"""Which images to label next: those that both networks are unsure of or disagree about, unlike one another.

The worth of an image is the entropy of the mean of both networks' predictions. It is the mean of their entropies plus
their disagreement, the Jensen-Shannon divergence:

.. math:: H(\tfrac{p_s + p_t}{2}) = \tfrac12\left(H(p_s) + H(p_t)\right) + \mathrm{JS}(p_s, p_t)

Images are spread by k-means over the features of both networks, and the nearest image to each centre is taken. Half of
the weight is spread evenly over the images, the other half by their worth: where both networks are sure and wrong, only
the even half finds it. CLUE (Prabhu et al. 2021) weights by the entropy of one network alone, over its features; with
few labels that takes too many odd images and can miss a whole class (docs/research/suggest.md).
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor
from torch.nn.functional import normalize

from residapt.errors import ConfigError, DataError


def label_worth(before: Tensor, after: Tensor) -> Tensor:
    """Entropy of the mean prediction of two networks, in nats; from their logits (n, classes)."""
    mean = (before.double().softmax(1) + after.double().softmax(1)) / 2
    return -torch.xlogy(mean, mean).sum(1)


def joint_features(before: Tensor, after: Tensor) -> Tensor:
    """Features of both networks, (n, f) and (n, g), as one row of (n, f + g); each network counts the same."""
    return torch.cat([normalize(before.double(), dim=1), normalize(after.double(), dim=1)], dim=1)


def choose_images(worth: Tensor, features: Tensor, count: int, *, seed: int = 0) -> Tensor:
    """Indices of ``count`` images, of the part of the features with the largest weight first.

    Args:
        worth: How much the label of each image would say, shape (n,), 0 or more.
        features: A row for each image, shape (n, features).
        count: How many images to choose; all of them where there are fewer.
        seed: Seed of k-means.
    """
    if count < 1:
        raise ConfigError(f"the number of images to label must be 1 or more, got {count}.")
    if worth.shape != features.shape[:1] or not bool(worth.isfinite().all()) or not bool(features.isfinite().all()):
        raise DataError(
            f"choosing images needs finite features and a worth for each, got {tuple(features.shape)} and "
            f"{tuple(worth.shape)}. A network that diverged cannot suggest any."
        )
    if count >= len(worth):
        return worth.argsort(descending=True, stable=True)
    from sklearn.cluster import KMeans  # here: importing it takes a second
    from sklearn.exceptions import ConvergenceWarning

    rows = features.double()
    weights = 1 + worth.double() / worth.double().mean().clamp_min(1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different images than centres are fine
        found = KMeans(count, n_init=4, random_state=seed).fit(rows.numpy(), sample_weight=weights.numpy())
    group = torch.from_numpy(found.labels_).long()
    total = torch.zeros(count, dtype=torch.float64).index_add_(0, group, weights)
    distances = torch.cdist(torch.from_numpy(found.cluster_centers_).to(rows), rows)
    chosen: list[int] = []
    for centre in total.argsort(descending=True, stable=True).tolist():
        nearest = int(distances[centre].argmin())
        chosen.append(nearest)
        distances[:, nearest] = torch.inf  # equal images lie at one place, which may have two centres
    return torch.tensor(chosen)
