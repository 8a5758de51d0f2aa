"""The negative-transfer guard: did the adaptation help, judged by label-free evidence before and after it?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from residapt.errors import DataError
from residapt.selection.evidence import Evidence
from residapt.selection.scores import score

Votes = dict[str, tuple[float, float]]
"""Each measurement before and after the adaptation."""

CONFIDENCE = ("infomax", "bnm", "snd")
"""Scores that mostly measure how sure the predictions are: together they have one vote."""


@dataclass(frozen=True)
class GuardConfig:
    """Thresholds of :func:`decide`."""

    source_drop: float = 0.1
    """Alarm when the source accuracy falls by more than this."""
    frequency_shift: float = 0.3
    """Alarm when the class frequencies are further than this (total variation) from both references."""
    lost_mass: float = 0.15
    """Alarm when classes that vanished made up at least this share, in the source and of sure predictions."""
    renamed_classes: float = 1.0
    """Alarm when renaming classes would restore the old predictions for this many classes of average size."""
    ami_margin: float = 0.02
    """Change of ClassAMI that counts as a vote."""
    confidence_margin: float = 0.01
    """Relative change of a confidence score that counts."""


@dataclass(frozen=True)
class Verdict:
    """What the guard concludes."""

    helped: bool | None
    """True: keep the adapted network. False: fall back to the source-only one. None: no clear evidence."""
    votes: Votes
    """Every measurement, before and after."""
    reasons: tuple[str, ...]
    """What decided, in words."""


def compare(before: Evidence, after: Evidence, config: GuardConfig | None = None) -> Verdict:
    """Judge an adaptation from the outputs of the source-only and the adapted network on the same samples."""
    return decide(measure(before, after), config)


def decide(votes: Mapping[str, tuple[float, float]], config: GuardConfig | None = None) -> Verdict:
    """The rule, as a function of the measurements alone, so that it can be calibrated on recorded runs.

    1. *Alarms.* Each of them alone means False, however sure the predictions are:

       - the source accuracy fell: the shared weights were damaged;
       - the predicted class frequencies are far from those of the source-only network *and* from those of
         the source (a target that really lacks classes is far from the source only: the source-only network
         sees that too);
       - classes vanished that are frequent in the source and among the surer half of the source-only
         network's predictions (collapse);
       - the old predictions come back when classes are renamed (two classes swapped look as sure and as well
         clustered as a success).
    2. *Structure.* ClassAMI asks whether predictions follow the clusters of the features: one vote.
    3. *Confidence.* InfoMax, BNM and SND have one vote together, by majority: most losses raise all three.
    4. True needs the vote of structure, and confidence not against. False needs one against and the other
       not for. All else is None, so confidence alone never passes.

    What no rule of this kind can see: a swap of classes that the source-only network already confused.
    """
    config = config or GuardConfig()
    alarms = _alarms(votes, config)
    structure = _sign(votes["class_ami"], config.ami_margin)
    confidence = _confidence(votes, config.confidence_margin)
    reasons = alarms or (
        f"predictions follow the target's clusters {_word(structure)} (ClassAMI)",
        f"predictions are sure and varied {_word(confidence)} (majority of {', '.join(CONFIDENCE)})",
    )
    helped = None
    if alarms or structure + confidence < 0:
        helped = False
    elif structure > 0 and confidence >= 0:
        helped = True
    return Verdict(helped, dict(votes), tuple(reasons))


def measure(before: Evidence, after: Evidence) -> Votes:
    """All measurements that :func:`decide` reads; plain numbers, fit for a record."""
    _check_same_samples(before, after)
    names = ("source_accuracy", "class_ami", *CONFIDENCE)
    votes: Votes = {name: (score(name, before), score(name, after)) for name in names}
    prior = _frequencies(after.source_labels, after.classes)
    old = _frequencies(before.target_logits.argmax(dim=1), before.classes)
    new = _frequencies(after.target_logits.argmax(dim=1), after.classes)
    votes["classes_predicted"] = (_effective_classes(old), _effective_classes(new))
    nearest = min(_total_variation(new, old), _total_variation(new, prior))
    votes["frequency_shift"] = (_total_variation(old, prior), nearest)
    reference = torch.minimum(torch.minimum(old, _sure_frequencies(before.target_logits)), prior)
    votes["lost_mass"] = (0.0, _lost_mass(new, reference))
    votes["renamed_classes"] = (0.0, _renamed_classes(before.target_logits, after.target_logits))
    return votes


def _alarms(votes: Mapping[str, tuple[float, float]], config: GuardConfig) -> tuple[str, ...]:
    accuracy_before, accuracy_after = votes["source_accuracy"]
    shift, lost, renamed = (votes[name][1] for name in ("frequency_shift", "lost_mass", "renamed_classes"))
    found = []
    if accuracy_before - accuracy_after > config.source_drop:
        found.append(f"the source accuracy fell from {accuracy_before:.3f} to {accuracy_after:.3f}")
    if shift > config.frequency_shift:
        found.append(f"target class frequencies moved {shift:.2f} away from every reference")
    if lost >= config.lost_mass:
        found.append(f"classes with {lost:.0%} of the samples are no longer predicted (collapse)")
    if renamed >= config.renamed_classes:
        found.append(f"about {renamed:.1f} classes kept their samples but changed their names (swap)")
    return tuple(found)


def _confidence(votes: Mapping[str, tuple[float, float]], margin: float) -> int:
    signs = [_sign(votes[name], margin * max(map(abs, votes[name]))) for name in CONFIDENCE]
    return (sum(signs) > 0) - (sum(signs) < 0)


def _sign(pair: tuple[float, float], margin: float) -> int:
    change = pair[1] - pair[0]
    return (change > margin) - (change < -margin)


def _word(sign: int) -> str:
    return {1: "more than before", 0: "as before", -1: "less than before"}[sign]


def _frequencies(labels: Tensor, classes: int) -> Tensor:
    return torch.bincount(labels.long(), minlength=classes).double() / len(labels)


def _sure_frequencies(logits: Tensor) -> Tensor:
    """Class frequencies among the surer half of the predictions.

    A class that the target lacks is still predicted now and then, but by mistake and rarely for sure.
    """
    confidence, predicted = logits.double().softmax(dim=1).max(dim=1)
    return _frequencies(predicted[confidence >= confidence.median()], logits.shape[1])


def _total_variation(p: Tensor, q: Tensor) -> float:
    return float((p - q).abs().sum()) / 2


def _effective_classes(frequencies: Tensor) -> float:
    return float(torch.special.entr(frequencies).sum().exp())


def _lost_mass(new: Tensor, reference: Tensor) -> float:
    """Share of the reference that belongs to classes of which less than a tenth is left."""
    return float(reference[new < 0.1 * reference].sum())


def _renamed_classes(before: Tensor, after: Tensor) -> float:
    """How many average classes would agree with their old prediction again under the best renaming."""
    classes = before.shape[1]
    pairs = before.argmax(dim=1) * classes + after.argmax(dim=1)
    table = torch.bincount(pairs, minlength=classes * classes).reshape(classes, classes).numpy()
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() - table.trace()) * classes / len(before)


def _check_same_samples(before: Evidence, after: Evidence) -> None:
    same_source = torch.equal(before.source_labels, after.source_labels)
    if not same_source or before.target_logits.shape != after.target_logits.shape:
        raise DataError(
            "the guard compares two networks on the same samples in the same order, "
            "but the source labels or the shape of the target outputs differ: "
            f"{tuple(before.target_logits.shape)} before, {tuple(after.target_logits.shape)} after. "
            "Collect both with the same loaders, without shuffling."
        )
