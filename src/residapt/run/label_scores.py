"""What labelled images say of the result: read at the very end, after every decision has been made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor, nn

from residapt.evaluate.calibration import calibration
from residapt.evaluate.metrics import confusion_matrix, detect
from residapt.evaluate.predict import Evaluation, evaluating, logits_of
from residapt.run.networks import logits_in
from residapt.run.request import Plan
from residapt.storage.summary import Accuracy, ScoredCalibration, ScoredDetection
from residapt.train import Method

Stage = Literal["source_only", "adapted"]


@dataclass(frozen=True)
class LabelScores:
    """Scores of a labelled set before and after; nothing where none was given."""

    accuracies: list[Accuracy] = field(default_factory=list)
    detections: list[ScoredDetection] = field(default_factory=list)
    calibrations: list[ScoredCalibration] = field(default_factory=list)


def score_labelled(plan: Plan, source: nn.Module, method: Method, temperatures: Mapping[Stage, float]) -> LabelScores:
    """Accuracy, calibration, and for two classes (or a named one) average precision, of both networks."""
    found = LabelScores()
    if plan.evaluation is None:
        return found
    images, device = plan.evaluation.data.images, plan.device
    with evaluating(source):
        before = logits_of(lambda x: logits_in(source(x)), images, batch_size=64, device=device)
    with evaluating(method):
        after = logits_of(lambda x: method.predict(x, "target"), images, device=device)
    _add(found, plan, plan.evaluation, "source_only", before, temperatures["source_only"])
    _add(found, plan, plan.evaluation, "adapted", after, temperatures["adapted"])
    return found


def _add(found: LabelScores, plan: Plan, scored: Evaluation, stage: Stage, logits: Tensor, temperature: float) -> None:
    labels, name, protocol = scored.data.labels, scored.name, scored.protocol
    percent = 100.0 * float((logits.argmax(1) == labels).double().mean())
    found.accuracies.append(Accuracy(name=name, stage=stage, percent=percent, images=len(labels), protocol=protocol))
    detection = detect(logits, labels, plan.classes, plan.config.data.positive)
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
