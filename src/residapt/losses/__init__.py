"""Losses: tensors in, scalar out (paper §3.2).

Example:
    >>> import torch, residapt
    >>> x = torch.randn(64, 5)
    >>> float(residapt.losses.coral(x, x + 3.0)) < 1e-6  # blind to the mean
    True
"""

from residapt.losses.adversarial import (
    DomainClassifier,
    DomainLogits,
    domain_accuracy,
    domain_logits,
    domain_loss,
    flipped_loss,
    frozen,
    reverse_gradient,
    uniform_loss,
    unit_scale,
)
from residapt.losses.classification import weighted_cross_entropy
from residapt.losses.consistency import consistency
from residapt.losses.information import class_confusion, entropy, information_maximisation
from residapt.losses.moments import coral, gaussian_mmd, linear_mmd, median_bandwidths, median_rbf_mmd, rbf_mmd
from residapt.losses.multilinear import RandomMultilinear, entropy_weights, multilinear
from residapt.losses.reconstruction import difference_loss, scale_invariant_mse
from residapt.losses.stream import stream_loss
from residapt.losses.weights import exponential_distance, squared_distance

__all__ = [
    "DomainClassifier",
    "DomainLogits",
    "RandomMultilinear",
    "class_confusion",
    "consistency",
    "coral",
    "difference_loss",
    "domain_accuracy",
    "domain_logits",
    "domain_loss",
    "entropy",
    "entropy_weights",
    "exponential_distance",
    "flipped_loss",
    "frozen",
    "gaussian_mmd",
    "information_maximisation",
    "linear_mmd",
    "median_bandwidths",
    "median_rbf_mmd",
    "multilinear",
    "rbf_mmd",
    "reverse_gradient",
    "scale_invariant_mse",
    "squared_distance",
    "stream_loss",
    "uniform_loss",
    "unit_scale",
    "weighted_cross_entropy",
]
