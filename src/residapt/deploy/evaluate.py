"""Scores on a labelled folder: accuracy, each class, the confusion matrix and average precision."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from residapt.data.folders import LabelledFiles
from residapt.data.image_files import list_images
from residapt.data.labelled_files import find_labelled
from residapt.data.same_files import also_among, which_marked
from residapt.deploy.images import decoded_batches
from residapt.deploy.load_run import DeployedModel
from residapt.errors import ConfigError, DataError
from residapt.evaluate.calibration import Calibration, calibration
from residapt.evaluate.metrics import (
    Detection,
    OneAgainstRest,
    average_precision,
    check_positive,
    confusion_matrix,
    detect,
)
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
    """Whether some of these were used, unlabelled, for adaptation; unknown where its folder is missing."""
    classes: list[ClassScores]
    """Each class, in the order of the outputs."""
    confusion: list[list[int]]
    """Counts: a row for each true class, a column for each predicted one."""
    detection: Detection | None = None
    """Average precision and the precision-recall curve of the positive class, for two classes or where one is named."""
    calibration: Calibration
    """Whether the confidence of the predictions can be relied on."""
    left_out: int = 0
    """Images that were not scored, because the run has trained on their labels."""
    unreadable: dict[str, str] = Field(default_factory=dict)
    """Files that were left out, with the reason."""


def evaluate_folder(
    deployed: DeployedModel,
    folder: Path,
    *,
    batch_size: int = 64,
    positive: str | None = None,
    on_images: Callable[[int, int], None] = lambda done, total: None,
) -> FolderScores:
    """Score class folders, or the images of a CSV file (path,class); of each only logits and label are kept.

    ``positive`` names the positive class; of two classes it is by default the one with fewer images. Images
    whose labels the run has trained on are left out.
    """
    if batch_size < 1:
        raise ConfigError(f"batch_size must be 1 or more, got {batch_size}.")
    check_positive(positive, deployed.classes)
    files = find_labelled(folder, deployed.classes)
    if files.shards is not None:
        raise DataError(f"'{folder}' are tar files, which are only read in training. Unpack them into class folders.")
    found, left_out = _without_trained(files, deployed)
    # One block from the start: small pieces that stay, between batches that go, keep the heap from being used again.
    logits = torch.empty(len(found.paths), len(deployed.classes))
    readable, done = torch.zeros(len(found.paths), dtype=torch.bool), 0
    unreadable: dict[str, str] = {}
    for batch in decoded_batches(found.paths, deployed.input, batch_size):
        unreadable |= {Path(os.path.relpath(bad.path, found.root)).as_posix(): bad.reason for bad in batch.unreadable}
        if len(batch.places):
            logits[batch.places] = deployed.logits(batch.pixels)
            readable[batch.places] = True
        done += len(batch.places) + len(batch.unreadable)
        on_images(done, len(found.paths))
    if not bool(readable.any()):
        raise DataError(f"none of the {len(found.paths)} images in '{folder}' can be read. Give another folder.")
    scores = score_logits(logits[readable], found.labels[readable], deployed.classes, positive)
    protocol = _protocol(found.paths, deployed.target)
    return scores.model_copy(update={"protocol": protocol, "unreadable": unreadable, "left_out": left_out})


def _without_trained(found: LabelledFiles, deployed: DeployedModel) -> tuple[LabelledFiles, int]:
    """The folder without the images that were labelled target images of the run, wherever they lie now."""
    trained = which_marked(found.paths, deployed.labelled)
    kept = [place for place, known in enumerate(trained) if not known]
    if not kept:
        raise DataError(
            f"all {len(found.paths)} images in '{found.root}' are among those whose labels the run has trained on. "
            "Give images that it has not seen with their labels."
        )
    paths = tuple(found.paths[place] for place in kept)
    rest = replace(found, paths=paths, class_numbers=tuple(found.class_numbers[place] for place in kept))
    return rest, len(trained) - len(kept)


def score_logits(logits: Tensor, labels: Tensor, classes: tuple[str, ...], positive: str | None = None) -> FolderScores:
    """The scores of logits (n, classes) against labels (n,); ``positive`` names the positive class."""
    confusion = confusion_matrix(logits, labels)
    ranked = OneAgainstRest(logits)
    rows = [_score_class(i, name, confusion, ranked, labels) for i, name in enumerate(classes)]
    return FolderScores(
        images=len(labels),
        accuracy=100.0 * float(confusion.diagonal().sum()) / len(labels),
        class_accuracy=_mean([row.accuracy for row in rows]) or 0.0,
        average_precision=_mean([row.average_precision for row in rows]),
        protocol="unknown",
        classes=rows,
        confusion=confusion.tolist(),
        detection=detect(logits, labels, classes, positive),
        calibration=calibration(logits, labels),
    )


def _score_class(index: int, name: str, confusion: Tensor, ranked: OneAgainstRest, labels: Tensor) -> ClassScores:
    right, images = int(confusion[index, index]), int(confusion[index].sum())
    guesses = int(confusion[:, index].sum())
    both = 0 < images < len(labels)
    return ClassScores(
        name=name,
        images=images,
        accuracy=100.0 * right / images if images else None,
        precision=100.0 * right / guesses if guesses else None,
        average_precision=average_precision(ranked.log_odds(index), labels == index) if both else None,
    )


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _protocol(paths: tuple[Path, ...], target: Path | None) -> Literal["transductive", "held-out", "unknown"]:
    if target is None or not target.is_dir():
        return "unknown"
    return "transductive" if also_among(paths, list_images(target)) else "held-out"
