"""The negative-transfer guard: did the adaptation help, judged by label-free evidence before and after it?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from residapt.errors import DataError
from residapt.evaluate.evidence import Evidence
from residapt.evaluate.scores import score

Votes = dict[str, tuple[float, float]]
"""Each measurement before and after the adaptation."""

RECORDED = ("source_accuracy", "class_ami", "infomax", "bnm", "snd")
"""Scores taken of both networks; BNM and SND move with InfoMax and are kept for calibration only."""


ROUNDING = 1e-9
"""Probabilities closer than this are equal, so that equally sure predictions are taken or left together."""


@dataclass(frozen=True)
class GuardConfig:
    """Thresholds of :func:`decide`."""

    source_drop: float = 0.1
    """Alarm when the source accuracy falls by more than this."""
    frequency_shift: float = 0.3
    """Against when the class frequencies are further than this (total variation) from every reference."""
    lost_mass: float = 0.15
    """Two votes against when classes that vanished made up at least this share of every reference."""
    renamed_classes: float = 1.0
    """Alarm when at least this many classes of average size exchanged their samples."""
    ami_gain: float = 0.01
    """Rise of either cluster agreement that counts for the adaptation."""
    ami_loss: float = 0.05
    """Fall that counts against it; larger, as the old predictions are made from the old features."""
    sure_agreement: float = 0.92
    """Share of the surest old predictions that must be kept."""
    confidence_loss: float = 0.25
    """Relative fall of InfoMax that counts against; smaller ones are usual, as source-only networks are too sure."""


@dataclass(frozen=True)
class Judgement:
    """What the guard concludes."""

    helped: bool | None
    """True: keep the adapted network. False: fall back to the source-only one. None: no clear evidence."""
    votes: Votes
    """Every measurement, before and after."""
    reasons: tuple[str, ...]
    """What decided, in words, each marked ``for: `` or ``against: `` the adapted network."""


def compare(before: Evidence, after: Evidence, config: GuardConfig | None = None) -> Judgement:
    """Judge an adaptation from the outputs of the source-only and the adapted network on the same samples."""
    return decide(measure(before, after), config)


def decide(votes: Mapping[str, tuple[float, float]], config: GuardConfig | None = None) -> Judgement:
    """The rule, as a function of the measurements alone, so that it can be calibrated on recorded runs.

    1. *Alarms.* Each of them alone means False, however good the rest looks:

       - the source accuracy fell: the shared weights were damaged;
       - populated classes exchanged their samples (a swap looks as sure and as well clustered as a success).
    2. *Votes*, for (+1), against (-1) or neither (0):

       - ``anchored_ami``: the predictions against clusters of the features *before* the adaptation, which no
         training can bend to fit;
       - ``class_ami``: each network's predictions against clusters of its own features, which a damaged
         network can have bent to its mistakes;
       - ``sure_agreement``: the surest quarter of the source-only predictions should survive (-1 or 0);
       - ``frequency_shift``: the class frequencies should be near one of three references: the source
         labels, the source-only network's predictions, or the surer half of those (-1 or 0). A target that
         really lacks classes is far from the first only;
       - ``lost_mass``: classes that are frequent in all three references should not vanish. The vote against
         counts twice, so that a collapse cannot be outvoted;
       - ``infomax``: only against, after a large fall. Confidence never speaks for an adaptation, because
         collapsed and swapped classes are predicted with confidence too.
    3. A negative sum means False. A positive one means True if ``anchored_ami`` is among the votes for it.
       All else is None: no clear evidence.

    What no rule of this kind can see: an exchange of classes that the source-only network had wrong (it would
    be called a swap), or a swap of classes that it already confused.
    """
    config = config or GuardConfig()
    alarms = _alarms(votes, config)
    opinions = _opinions(votes, config)
    total = sum(vote for vote, _ in opinions)
    helped: bool | None = None
    if alarms or total < 0:
        helped = False
    elif total > 0 and _ami_vote(votes["anchored_ami"], config) > 0:
        helped = True
    votes_cast = tuple(f"{'for' if vote > 0 else 'against'}: {reason}" for vote, reason in opinions if vote)
    reasons = tuple(f"against: {alarm}" for alarm in alarms) or votes_cast or ("nothing changed clearly",)
    return Judgement(helped, dict(votes), reasons)


def measure(before: Evidence, after: Evidence) -> Votes:
    """All measurements that :func:`decide` reads; plain numbers, fit for a record."""
    _check_same_samples(before, after)
    votes: Votes = {name: (score(name, before), score(name, after)) for name in RECORDED}
    anchored = replace(before, target_logits=after.target_logits)
    votes["anchored_ami"] = (votes["class_ami"][0], score("class_ami", anchored))
    votes["sure_agreement"] = (1.0, _sure_agreement(before.target_logits, after.target_logits))
    prior = _frequencies(after.source_labels, after.classes)
    old = _frequencies(before.target_logits.argmax(dim=1), before.classes)
    new = _frequencies(after.target_logits.argmax(dim=1), after.classes)
    votes["classes_predicted"] = (_effective_classes(old), _effective_classes(new))
    references = (prior, old, _sure_frequencies(before.target_logits))
    nearest = min(_total_variation(new, reference) for reference in references)
    votes["frequency_shift"] = (_total_variation(old, prior), nearest)
    votes["lost_mass"] = (0.0, _lost_mass(new, torch.stack(references).amin(dim=0)))
    votes["renamed_classes"] = (0.0, _renamed_classes(before.target_logits, after.target_logits))
    return votes


def _alarms(votes: Mapping[str, tuple[float, float]], config: GuardConfig) -> tuple[str, ...]:
    accuracy_before, accuracy_after = votes["source_accuracy"]
    renamed = votes["renamed_classes"][1]
    found = []
    if accuracy_before - accuracy_after > config.source_drop:
        found.append(f"the source accuracy fell from {accuracy_before:.3f} to {accuracy_after:.3f}")
    if renamed >= config.renamed_classes:
        found.append(f"about {renamed:.1f} classes exchanged their samples (swap)")
    return tuple(found)


def _opinions(votes: Mapping[str, tuple[float, float]], config: GuardConfig) -> tuple[tuple[int, str], ...]:
    """Each vote with its reason in words."""
    kept, shift, lost = (votes[name][1] for name in ("sure_agreement", "frequency_shift", "lost_mass"))
    unsure = votes["infomax"][1] < (1 - config.confidence_loss) * votes["infomax"][0]
    return (
        (
            _ami_vote(votes["anchored_ami"], config),
            "agreement of the predicted classes with groups of images that look alike to the source network: "
            + _text(votes, "anchored_ami"),
        ),
        (
            _ami_vote(votes["class_ami"], config),
            "agreement of the predicted classes with groups of images that look alike to the network itself: "
            + _text(votes, "class_ami"),
        ),
        (-(kept < config.sure_agreement), f"only {kept:.0%} of the source network's surest predictions were kept"),
        (
            -(shift > config.frequency_shift),
            f"{shift:.0%} of the images or more would have to change class to give usual class frequencies",
        ),
        (-2 * (lost >= config.lost_mass), f"classes with {lost:.0%} of the images vanished (collapse)"),
        (-unsure, "predictions are much less sure or less varied (InfoMax): " + _text(votes, "infomax")),
    )


def _ami_vote(pair: tuple[float, float], config: GuardConfig) -> int:
    change = pair[1] - pair[0]
    return (change > config.ami_gain) - (change < -config.ami_loss)


def _text(votes: Mapping[str, tuple[float, float]], name: str) -> str:
    return f"{votes[name][0]:.3f} before, {votes[name][1]:.3f} after"


def _frequencies(labels: Tensor, classes: int) -> Tensor:
    return torch.bincount(labels.long(), minlength=classes).double() / len(labels)


def _sure_agreement(before: Tensor, after: Tensor) -> float:
    """Share of the surest quarter of the old predictions that is still predicted."""
    confidence, predicted = before.double().softmax(dim=1).max(dim=1)
    sure = confidence >= confidence.quantile(0.75) - ROUNDING
    return float((after.argmax(dim=1) == predicted)[sure].double().mean())


def _sure_frequencies(logits: Tensor) -> Tensor:
    """Class frequencies among the surer half of the predictions.

    A class that the target lacks is still predicted now and then, but by mistake and rarely for sure.
    """
    confidence, predicted = logits.double().softmax(dim=1).max(dim=1)
    return _frequencies(predicted[confidence >= confidence.median() - ROUNDING], logits.shape[1])


def _total_variation(p: Tensor, q: Tensor) -> float:
    return float((p - q).abs().sum()) / 2


def _effective_classes(frequencies: Tensor) -> float:
    return float(torch.special.entr(frequencies).sum().exp())


def _lost_mass(new: Tensor, reference: Tensor) -> float:
    """Share of the reference that belongs to classes of which less than a tenth is left."""
    return float(reference[new < 0.1 * reference].sum())


def _renamed_classes(before: Tensor, after: Tensor) -> float:
    """How many classes of average size gave their samples to a class and took those of another.

    Under the best renaming i -> j of the old predictions, a class counts by the smaller of what it gave and what
    it took: a misnamed cluster that moves into an empty class is not an exchange.
    """
    classes = before.shape[1]
    pairs = before.argmax(dim=1) * classes + after.argmax(dim=1)
    table = torch.bincount(pairs, minlength=classes * classes).reshape(classes, classes).double()
    old, new = (torch.from_numpy(index) for index in linear_sum_assignment(table.numpy(), maximize=True))
    gave, taken = table[old, new], torch.empty(classes, dtype=table.dtype)
    taken[new] = gave
    return float(torch.minimum(gave, taken)[new != old].sum()) * classes / len(before)


def _check_same_samples(before: Evidence, after: Evidence) -> None:
    same_source = torch.equal(before.source_labels, after.source_labels)
    if not same_source or before.target_logits.shape != after.target_logits.shape:
        raise DataError(
            "the guard compares two networks on the same samples in the same order, "
            "but the source labels or the shape of the target outputs differ: "
            f"{tuple(before.target_logits.shape)} before, {tuple(after.target_logits.shape)} after. "
            "Collect both with the same loaders, without shuffling."
        )
