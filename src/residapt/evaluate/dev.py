"""Deep embedded validation: the target risk estimated from weighted source errors (You et al. 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from residapt.errors import ConfigError, DataError
from residapt.evaluate.evidence import Evidence, subset

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DevConfig:
    """How the density ratio of target and source is estimated."""

    classifier: Literal["logistic", "mlp"] = "logistic"
    """Tells the domains apart. The logistic one is convex, so that equal features give equal scores."""
    decays: tuple[float, ...] = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)
    """Weight decays to choose from, by held-out log-likelihood; the nine of the authors."""
    folds: int = 3
    """Each sample's probability comes from a classifier that was fitted without its fold."""
    error: Literal["cross_entropy", "zero_one"] = "cross_entropy"
    """What counts as a source sample's error."""
    subsample: int | None = 2_000
    """At most this many samples of each domain."""
    seed: int = 0
    """Of the subsample, the folds and the classifier."""

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise ConfigError(f"dev: folds must be at least 2, got {self.folds}.")
        if not self.decays or min(self.decays) <= 0:
            raise ConfigError(f"dev: decays must be one or more positive numbers, got {self.decays}.")


def dev(evidence: Evidence, config: DevConfig | None = None) -> float:
    """Minus the DEV risk: higher is better. See :func:`dev_risk`."""
    return -dev_risk(*_weighted_errors(evidence, config or DevConfig()))


def devn(evidence: Evidence, config: DevConfig | None = None) -> float:
    """Minus the risk with normalised weights (DEVN): less at the mercy of a few large weights."""
    weights, errors = _weighted_errors(evidence, config or DevConfig())
    return -dev_risk(normalise_weights(weights), errors)


def dev_risk(weights: Floats, errors: Floats) -> float:
    r"""Mean weighted error with the weights as a control variate, as their mean should be 1; lower is better.

    .. math:: \overline{w\ell} + \eta\,\bar w - \eta, \qquad
        \eta = -\mathrm{Cov}(w\ell, w) / \mathrm{Var}(w)
    """
    weighted = weights * errors
    deviation = weights - weights.mean()
    variance = float(np.mean(deviation**2))
    # Weights that are all equal carry no information to correct with (and would divide by zero).
    eta = -float(np.mean((weighted - weighted.mean()) * deviation)) / variance if variance > 1e-12 else 0.0
    return float(weighted.mean()) + eta * float(weights.mean()) - eta


def normalise_weights(weights: Floats) -> Floats:
    """Scaled so that the largest is 1, then shifted to mean 1: all lie between 0 and 2."""
    scaled = weights / max(float(weights.max()), float(np.finfo(np.float64).tiny))
    return np.asarray(scaled - scaled.mean() + 1, dtype=np.float64)


def density_ratio(source: Tensor, target: Tensor, config: DevConfig) -> Floats:
    r"""Importance weights of the source samples, from a classifier that tells the domains apart.

    .. math:: w(f) = \frac{N_s}{N_t} \cdot \frac{p(\text{target} \mid f)}{p(\text{source} \mid f)}
    """
    features = torch.cat([source, target]).double().numpy()
    domains = np.repeat([0, 1], [len(source), len(target)])
    if min(len(source), len(target)) < config.folds:
        raise DataError(
            f"dev: {config.folds} folds need as many samples per domain, got {len(source)} and {len(target)}."
        )
    probabilities = _held_out_probabilities(features, domains, config)[: len(source)]
    ratio: Floats = probabilities / (1 - probabilities) * (len(source) / len(target))
    return ratio


def _held_out_probabilities(features: Floats, domains: NDArray[np.int64], config: DevConfig) -> Floats:
    """p(target | f) of every sample under the weight decay with the best held-out log-likelihood."""
    from sklearn.metrics import log_loss  # here: importing it takes a second
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    folds = StratifiedKFold(config.folds, shuffle=True, random_state=config.seed)
    best: tuple[float, Floats] = (math.inf, np.empty(0))
    for decay in config.decays:
        model = make_pipeline(StandardScaler(), _classifier(decay, len(features), config))
        found = cross_val_predict(model, features, domains, cv=folds, method="predict_proba")[:, 1]
        found = np.clip(found, 1e-6, 1 - 1e-6)
        best = min(best, (float(log_loss(domains, found)), found), key=lambda pair: pair[0])
    return best[1]


def _classifier(decay: float, samples: int, config: DevConfig) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    if config.classifier == "logistic":
        # scikit-learn's C multiplies the sum over the samples, a weight decay their mean.
        return LogisticRegression(C=1 / (decay * samples), max_iter=1000)
    if config.classifier == "mlp":
        return MLPClassifier((64,), alpha=decay, early_stopping=True, random_state=config.seed)
    raise ConfigError(f"dev: classifier must be 'logistic' or 'mlp', got {config.classifier!r}.")


def _weighted_errors(evidence: Evidence, config: DevConfig) -> tuple[Floats, Floats]:
    source = subset(len(evidence.source_logits), config.subsample, config.seed)
    target = subset(len(evidence.target_logits), config.subsample, config.seed)
    weights = density_ratio(evidence.source_features[source], evidence.target_features[target], config)
    logits, labels = evidence.source_logits[source].double(), evidence.source_labels[source].long()
    if config.error == "zero_one":
        errors = (logits.argmax(dim=1) != labels).double()
    elif config.error == "cross_entropy":
        errors = functional.cross_entropy(logits, labels, reduction="none")
    else:
        raise ConfigError(f"dev: error must be 'cross_entropy' or 'zero_one', got {config.error!r}.")
    return weights, errors.numpy()
