"""What a label-free score is computed from: a network's outputs on labelled source and unlabelled target data."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from residapt.errors import ConfigError, DataError


@dataclass(frozen=True, eq=False)
class Evidence:
    """Outputs of one trained network. There is no field for target labels, so no score can read them.

    The source samples should be held out from training: scores such as DEV weigh their errors. All tensors
    are on the CPU; features are those read by the domain loss, one row per sample.
    """

    source_logits: Tensor
    """(source samples, classes), of the source stream."""
    source_labels: Tensor
    """(source samples,), integers from 0."""
    source_features: Tensor
    """(source samples, features)."""
    target_logits: Tensor
    """(target samples, classes), of the target stream."""
    target_features: Tensor
    """(target samples, features)."""

    def __post_init__(self) -> None:
        for name in ("source_logits", "source_features", "target_logits", "target_features"):
            _check_matrix(name, getattr(self, name))
        _check_equal("classes", self.source_logits.shape[1], self.target_logits.shape[1])
        _check_equal("features", self.source_features.shape[1], self.target_features.shape[1])
        _check_equal("source samples", len(self.source_logits), len(self.source_features))
        _check_equal("target samples", len(self.target_logits), len(self.target_features))
        _check_labels(self.source_labels, *self.source_logits.shape)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self.target_logits.shape[1]


def subset(count: int, limit: int | None, seed: int) -> Tensor:
    """Sorted indices of at most ``limit`` of ``count`` samples, the same for the same three numbers.

    Scores of two networks are comparable only on the same samples, so this never reads the global generator.
    """
    if limit is not None and limit < 2:
        raise ConfigError(f"a subsample needs at least 2 samples, got {limit}. Use None to take all of them.")
    if limit is None or count <= limit:
        return torch.arange(count)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    return order[:limit].sort().values


def _check_matrix(name: str, value: Tensor) -> None:
    if value.ndim != 2 or not value.numel() or not value.is_floating_point() or value.device.type != "cpu":
        raise DataError(
            f"Evidence.{name} must be a floating-point matrix on the CPU with at least one row and column, "
            f"got {value.dtype} {tuple(value.shape)} on {value.device}. "
            "Use .flatten(1), .float() or .cpu() first."
        )
    if not value.isfinite().all():
        raise DataError(f"Evidence.{name} has values that are not finite: the network that made them diverged.")


def _check_equal(what: str, first: int, second: int) -> None:
    if first != second:
        raise DataError(f"the tensors of Evidence disagree about the number of {what}: {first} and {second}.")


def _check_labels(labels: Tensor, samples: int, classes: int) -> None:
    whole = not (labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool)
    if labels.shape != (samples,) or not whole or labels.device.type != "cpu":
        raise DataError(
            f"Evidence.source_labels must be {samples} integers on the CPU, "
            f"got {labels.dtype} {tuple(labels.shape)} on {labels.device}."
        )
    if labels.min() < 0 or labels.max() >= classes:
        raise DataError(
            f"Evidence.source_labels must lie between 0 and {classes - 1}, "
            f"got {labels.min().item()} to {labels.max().item()}."
        )
