"""Scores on a labelled folder: accuracy, each class, the confusion matrix and average precision."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from sklearn.metrics import average_precision_score
from torch import Tensor

from residapt.data.decode import list_images
from residapt.data.folders import scan_labelled
from residapt.data.same_files import also_among
from residapt.deploy.images import decoded_batches
from residapt.deploy.load_run import DeployedModel
from residapt.errors import ConfigError, DataError
from residapt.settings import Settings


class ClassScores(Settings):
    """One class."""

    name: str
    """The class."""
    images: int
    """Images of it."""
    accuracy: float | None
    """Share of them that were recognised, in per cent; None without images."""
    precision: float | None
    """Share of images predicted to be of it that are, in per cent; None without such predictions."""
    average_precision: float | None
    """AP of this class against the others; None without images of it, or of others."""


class FolderScores(Settings):
    """What a labelled folder says of a network. Labels were used for scoring only."""

    images: int
    """Images scored."""
    accuracy: float
    """Share of correct predictions, in per cent."""
    class_accuracy: float
    """Mean of the classes' accuracies, in per cent: each class counts the same."""
    average_precision: float | None
    """Mean of the classes' AP (macro)."""
    protocol: Literal["transductive", "held-out", "unknown"]
    """Whether some of these were seen, unlabelled, in adaptation; unknown when its folder is not at hand."""
    classes: list[ClassScores]
    """Each class, in the order of the outputs."""
    confusion: list[list[int]]
    """Counts: a row for each true class, a column for each predicted one."""
    unreadable: dict[str, str] = Field(default_factory=dict)
    """Files that were left out, with the reason."""


def evaluate_folder(
    deployed: DeployedModel,
    folder: Path,
    *,
    batch_size: int = 64,
    on_images: Callable[[int, int], None] = lambda done, total: None,
) -> FolderScores:
    """Score a folder of class folders; of each image only logits and label are kept."""
    if batch_size < 1:
        raise ConfigError(f"batch_size must be 1 or more, got {batch_size}.")
    found = scan_labelled(folder, deployed.classes)
    logits, places, done = [], [], 0
    unreadable: dict[str, str] = {}
    for batch in decoded_batches(found.paths, deployed.input, batch_size):
        unreadable |= {bad.path.relative_to(folder).as_posix(): bad.reason for bad in batch.unreadable}
        if len(batch.places):
            logits.append(deployed.logits(batch.pixels))
            places.append(batch.places)
        done += len(batch.places) + len(batch.unreadable)
        on_images(done, len(found.paths))
    if not logits:
        raise DataError(f"none of the {len(found.paths)} images in '{folder}' can be read. Give another folder.")
    scores = score_logits(torch.cat(logits), found.labels[torch.cat(places)], deployed.classes)
    protocol = _protocol(found.paths, deployed.target)
    return scores.model_copy(update={"protocol": protocol, "unreadable": unreadable})


def score_logits(logits: Tensor, labels: Tensor, classes: tuple[str, ...]) -> FolderScores:
    """The scores of logits (n, classes) against labels (n,)."""
    count = len(classes)
    predicted = logits.argmax(1)
    confusion = torch.bincount(labels * count + predicted, minlength=count * count).view(count, count)
    probabilities = logits.double().softmax(1).numpy()
    rows = [_score_class(i, name, confusion, probabilities, labels.numpy()) for i, name in enumerate(classes)]
    return FolderScores(
        images=len(labels),
        accuracy=100.0 * float(confusion.diagonal().sum()) / len(labels),
        class_accuracy=_mean([row.accuracy for row in rows]) or 0.0,
        average_precision=_mean([row.average_precision for row in rows]),
        protocol="unknown",
        classes=rows,
        confusion=confusion.tolist(),
    )


def _score_class(
    index: int, name: str, confusion: Tensor, probabilities: np.ndarray, labels: np.ndarray
) -> ClassScores:
    right, images = int(confusion[index, index]), int(confusion[index].sum())
    guesses = int(confusion[:, index].sum())
    both = 0 < images < len(labels)
    return ClassScores(
        name=name,
        images=images,
        accuracy=100.0 * right / images if images else None,
        precision=100.0 * right / guesses if guesses else None,
        average_precision=float(average_precision_score(labels == index, probabilities[:, index])) if both else None,
    )


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _protocol(paths: tuple[Path, ...], target: Path | None) -> Literal["transductive", "held-out", "unknown"]:
    if target is None or not target.is_dir():
        return "unknown"
    return "transductive" if also_among(paths, list_images(target)) else "held-out"
