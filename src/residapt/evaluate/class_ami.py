"""ClassAMI (Musgrave et al. 2022): do the predicted classes follow the clusters of the target features?"""

from __future__ import annotations

import numpy as np
from torch import Tensor
from torch.nn import functional

from residapt.evaluate.evidence import Evidence, subset


def class_ami(
    evidence: Evidence,
    *,
    normalise: bool = True,
    restarts: int = 5,
    subsample: int | None = 5_000,
    seed: int = 0,
) -> float:
    """Adjusted mutual information of predicted classes and k-means clusters; 1 is agreement, 0 is chance.

    k is the number of classes. Features are scaled to length 1 first unless ``normalise`` is off. The score
    is blind to the names of the classes: a network that swaps two of them scores as high as before. A network
    that predicts one class only scores 0.
    """
    keep = subset(len(evidence.target_logits), subsample, seed)
    features = evidence.target_features[keep]
    if normalise:
        features = functional.normalize(features.double(), dim=1)
    return cluster_agreement(evidence.target_logits[keep], features, restarts=restarts, seed=seed)


def cluster_agreement(logits: Tensor, features: Tensor, *, restarts: int = 5, seed: int = 0) -> float:
    """Adjusted mutual information of the classes that logits predict and k-means clusters of features."""
    from sklearn.cluster import KMeans  # here: importing it takes a second
    from sklearn.metrics import adjusted_mutual_info_score

    predicted = logits.argmax(dim=1).numpy()
    points = features.double().numpy()
    # k-means cannot make more clusters than there are different points, as after a collapse of the features.
    clusters = min(logits.shape[1], len(np.unique(points, axis=0)))
    if len(np.unique(predicted)) < 2:
        # One class for everything says nothing, but against collapsed features the measure would be 1.
        return 0.0
    found = KMeans(n_clusters=clusters, n_init=restarts, random_state=seed).fit_predict(points)
    return float(adjusted_mutual_info_score(predicted, found))
