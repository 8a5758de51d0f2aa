"""Labelled images that only score: which of them may, and what they say about the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from residapt.data.labelled_target import same_images
from residapt.data.same_files import also_among
from residapt.data.sources import OpenImages, OpenLabelled
from residapt.data.split import Part, part_of
from residapt.errors import DataError
from residapt.evaluate.calibration import calibration
from residapt.evaluate.metrics import confusion_matrix, detect
from residapt.evaluate.predict import Evaluation, Protocol, evaluating, predict_logits
from residapt.run.networks import logits_in
from residapt.run.request import Setup
from residapt.storage.summary import Accuracy, ScoredCalibration, ScoredDetection
from residapt.train import Method

FEW_PIXELS = 5_000
"""Images in memory that are compared pixel by pixel without asking."""
FEW_FILES, COMPARED = 2_000, 200
"""Of more files than this, so many are compared with the source's."""
Stage = Literal["source_only", "adapted"]


def evaluation_set(
    given: Any,
    scored: OpenLabelled | None,
    *,
    source: OpenLabelled | None,
    target: OpenImages,
    labelled: OpenLabelled | None,
) -> tuple[Evaluation | None, tuple[str, ...]]:
    """The set to score, with its stamp: are its images among those that training sees?"""
    if scored is None:
        return None, ()
    kept, notes = _without_labelled(scored, labelled)
    seen = same_images(scored.images, target)[kept]
    learned = 0 if source is None else also_among(scored.images.files, source.images.files)
    if learned:
        notes += (
            f"{learned} of the {len(scored.images)} images to score are labelled source images as well: "
            "their accuracy is not informative.",
        )
    protocol: Protocol = "transductive" if bool(seen.any()) or learned else "held-out"
    data = scored.plain if len(kept) == len(scored.images) else part_of(scored.plain, kept)
    return Evaluation(_name(given), data, protocol=protocol), notes


def _without_labelled(scored: OpenLabelled, labelled: OpenLabelled | None) -> tuple[Tensor, tuple[str, ...]]:
    everything = torch.arange(len(scored.images))
    if labelled is None:
        return everything, ()
    trained = same_images(scored.images, labelled.images)
    count = int(trained.sum())
    if count == len(everything):
        raise DataError(
            f"all {count} images to score are among the labelled target images that are trained on. "
            "Keep some of them out of target_labels, or leave evaluate out."
        )
    if not count:
        return everything, ()
    note = (
        f"{count} of the {len(everything)} images to score are among the labelled target images that are trained on: "
        "they are left out of the score."
    )
    return everything[~trained], (note,)


def unlabelled(target: OpenImages, labelled: OpenLabelled | None) -> tuple[Tensor, tuple[str, ...]]:
    """Target images for the scores that need no labels: those without a given label."""
    everything = torch.arange(len(target))
    if labelled is None:
        return everything, ()
    rest = everything[~same_images(target, labelled.images)]
    if len(rest):
        return rest, ()
    note = (
        f"all {len(everything)} target images have labels, so none is left to judge the result: the label-free scores "
        "that need no labels are of images that were trained on, and say little. Give more unlabelled images."
    )
    return everything, (note,)


def doubtful_data(source: OpenLabelled, target: OpenImages) -> tuple[str, ...]:
    """What is allowed but rarely meant: target images that are source images, and classes with a single image."""
    found: tuple[str, ...] = ()
    if bool(source.images.files) == bool(target.files) and (target.files or len(target) <= FEW_PIXELS):
        some = _some(target)
        same = round(int(same_images(some, source.images).sum()) * len(target) / len(some))
        if same:
            about = "about " if len(some) < len(target) else ""
            found += (
                f"{about}{same} of the {len(target)} target images are source images as well. Is the target right?",
            )
    counts = source.labels.bincount(minlength=len(source.classes))
    single = [name for name, count in zip(source.classes, counts.tolist(), strict=True) if count == 1]
    if single:
        shown = ", ".join(single[:5]) + (f" and {len(single) - 5} more" if len(single) > 5 else "")
        found += (f"classes with a single source image: {shown}. None of these images can be held out.",)
    return found


def _some(target: OpenImages) -> OpenImages:
    """Of very many files a few, evenly spread: comparing all of them would read each of them."""
    if len(target.files) <= FEW_FILES:
        return target
    places = torch.arange(0, len(target), len(target) // COMPARED)
    files = tuple(target.files[place] for place in places.tolist())
    return replace(target, plain=Part(target.plain, places), files=files)


def _name(data: Any) -> str:
    """What to call a scored set; two parts of a path, because many folders are called "images"."""
    return "/".join(Path(data).absolute().parts[-2:]) if isinstance(data, (str, Path)) else "labelled images"


@dataclass(frozen=True)
class LabelScores:
    """Scores of a labelled set before and after; nothing where none was given."""

    accuracies: list[Accuracy] = field(default_factory=list)
    detections: list[ScoredDetection] = field(default_factory=list)
    calibrations: list[ScoredCalibration] = field(default_factory=list)


def score_labelled(setup: Setup, source: nn.Module, method: Method, temperatures: Mapping[Stage, float]) -> LabelScores:
    """Accuracy, calibration, and for two classes (or a named one) average precision, of both networks."""
    found = LabelScores()
    if setup.evaluation is None:
        return found
    images, device = setup.evaluation.data.images, setup.device
    with evaluating(source):
        before = predict_logits(lambda x: logits_in(source(x)), images, batch_size=64, device=device)
    with evaluating(method):
        after = predict_logits(lambda x: method.predict(x, "target"), images, device=device)
    _add(found, setup, setup.evaluation, "source_only", before, temperatures["source_only"])
    _add(found, setup, setup.evaluation, "adapted", after, temperatures["adapted"])
    return found


def _add(
    found: LabelScores, setup: Setup, scored: Evaluation, stage: Stage, logits: Tensor, temperature: float
) -> None:
    labels, name, protocol = scored.data.labels, scored.name, scored.protocol
    percent = 100.0 * float((logits.argmax(1) == labels).double().mean())
    found.accuracies.append(Accuracy(name=name, stage=stage, percent=percent, images=len(labels), protocol=protocol))
    detection = detect(logits, labels, setup.classes, setup.config.data.positive)
    if detection is not None:
        found.detections.append(ScoredDetection(name=name, stage=stage, protocol=protocol, detection=detection))
    found.calibrations.append(
        ScoredCalibration(
            name=name,
            stage=stage,
            protocol=protocol,
            plain=calibration(logits, labels),
            scaled=calibration(logits, labels, temperature=temperature),
            confusion=confusion_matrix(logits, labels).tolist(),
        )
    )
