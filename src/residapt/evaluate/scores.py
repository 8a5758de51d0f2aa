"""Scores that need no target label, under one call signature and all "higher is better"."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from residapt.errors import ConfigError
from residapt.evaluate.class_ami import class_ami
from residapt.evaluate.dev import dev, devn
from residapt.evaluate.evidence import Evidence, subset
from residapt.evaluate.snd import SAMPLE as SND_SAMPLE
from residapt.evaluate.snd import snd
from residapt.losses.information import entropy, information_maximisation
from residapt.losses.moments import rbf_mmd


@dataclass(frozen=True)
class ScoreSpec:
    """A score and one line about it."""

    function: Callable[[Evidence], float]
    """Reads the evidence; a larger value is better."""
    explanation: str
    """What it measures, for tables and reports."""


def source_accuracy(evidence: Evidence) -> float:
    """Share of right predictions on the source samples."""
    return float((evidence.source_logits.argmax(dim=1) == evidence.source_labels).double().mean())


def entropy_score(evidence: Evidence) -> float:
    """Minus the mean entropy of the target predictions, in nats; 0 at best. Collapse raises it."""
    return -entropy(evidence.target_logits.double()).mean().item()


def infomax(evidence: Evidence) -> float:
    """Entropy of the mean target prediction minus their mean entropy; log(classes) at best."""
    return -information_maximisation(evidence.target_logits.double()).item()


def bnm(evidence: Evidence) -> float:
    """Nuclear norm of the matrix of target predictions, divided by its rows n; sqrt(classes / n) at best.

    Large for predictions that are confident and spread over the classes (Cui et al. 2020). Compare equal n only.
    """
    probabilities = evidence.target_logits.double().softmax(dim=1)
    return float(torch.linalg.matrix_norm(probabilities, ord="nuc")) / len(probabilities)


def mmd_outputs(evidence: Evidence, *, subsample: int | None = 2_000, seed: int = 0) -> float:
    """Minus the squared MMD of the two streams' class probabilities; 0 at best.

    The criterion by which the two-stream paper chooses layers, with its kernel exp(-|u - v|²). Probabilities,
    not logits: a fixed kernel width would favour networks with small logits.
    """
    source = evidence.source_logits[subset(len(evidence.source_logits), subsample, seed)]
    target = evidence.target_logits[subset(len(evidence.target_logits), subsample, seed)]
    return -rbf_mmd(source.double().softmax(dim=1), target.double().softmax(dim=1)).item()


def comparable(name: str, value: float, evidence: Evidence) -> float:
    r"""A score on a scale that does not depend on the number n of target samples; the order of networks stays.

    BNM becomes :math:`\lVert P\rVert_*/\sqrt{nc}`, 1 at best. SND becomes :math:`\overline H - \log n`: the logarithm
    of the share of all samples that is in a neighbourhood, 0 at most.
    """
    n = len(evidence.target_logits)
    if name == "bnm":
        return value * math.sqrt(n / evidence.classes)
    return value - math.log(min(n, SND_SAMPLE)) if name == "snd" else value


SCORES: dict[str, ScoreSpec] = {
    "source_accuracy": ScoreSpec(source_accuracy, "accuracy on source images that were held out of training"),
    "entropy": ScoreSpec(entropy_score, "confidence of the target predictions; also high when all are of one class"),
    "infomax": ScoreSpec(infomax, "target predictions that are confident and spread over the classes"),
    "bnm": ScoreSpec(
        bnm, "target predictions that are confident and spread over the classes (nuclear norm); 1 at best"
    ),
    "snd": ScoreSpec(
        snd, "how many target images have similar predictions, 0 at most; also high when all are of one class"
    ),
    "class_ami": ScoreSpec(
        class_ami, "agreement of the predicted classes with groups of similar target images (k-means)"
    ),
    "dev": ScoreSpec(dev, "minus the estimated target error, from source errors weighted by a density ratio"),
    "devn": ScoreSpec(devn, "DEV with normalised weights: steadier when a few weights are large"),
    "mmd_outputs": ScoreSpec(mmd_outputs, "similarity of the class probabilities on both domains"),
}
"""Every score by its name."""


def score(name: str, evidence: Evidence) -> float:
    """The score called ``name``; a larger value is better."""
    if name not in SCORES:
        raise ConfigError(f"there is no score {name!r}. Use one of: {', '.join(SCORES)}.")
    return SCORES[name].function(evidence)
