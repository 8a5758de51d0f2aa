"""Signs that a run goes wrong, as functions from numbers to words; :mod:`.health` collects the numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from residapt.train.config import HealthConfig

LOG2 = math.log(2.0)
"""Loss of a domain classifier that cannot tell the domains apart."""


@dataclass(frozen=True)
class Symptom:
    """One kind of trouble; ``severity`` grows as it gets worse."""

    kind: str
    severity: float
    text: str


def stuck_adversary(losses: Sequence[float], unchanged: bool, config: HealthConfig) -> Symptom | None:
    """The domain classifier has learned nothing since the start; ``losses`` are all it ever had."""
    if len(losses) < config.patience or not (unchanged or _only_guesses(losses, config.stuck)):
        return None
    if unchanged:
        why = "its weights have not changed at all. Raise train.adversary.lr (it must be above 0)."
    else:
        why = (
            "either the two domains look the same to this network, and there is nothing to adapt, or the domain "
            "classifier gets no signal. Raise train.adversary.lr, or let it read another layer with transform.features."
        )
    return Symptom(
        "adversary_stuck",
        1.0,
        f"the domain classifier has collapsed: since the start it does no better than guessing (loss {losses[-1]:.3f}, "
        f"guessing gives {LOG2:.3f}) and so cannot pull the domains together; {why}",
    )


def _only_guesses(losses: Sequence[float], tolerance: float) -> bool:
    """No better than log 2 on the whole, nor (but for the noise of a batch) at any time, and not getting there."""
    half = len(losses) // 2
    early, late = sum(losses[:half]) / max(half, 1), sum(losses[half:]) / max(len(losses) - half, 1)
    better = early < LOG2 - tolerance or late < LOG2 - tolerance or min(losses) < LOG2 - 3 * tolerance
    return not better and late > early - tolerance


def perfect_adversary(accuracies: Sequence[float], config: HealthConfig) -> Symptom | None:
    """The domain classifier has separated the domains (almost) perfectly for many logged steps."""
    recent = accuracies[-config.patience :]
    mean = sum(recent) / max(len(recent), 1)
    if len(recent) < config.patience or mean < config.perfect:
        return None
    return Symptom(
        "adversary_perfect",
        1.0,
        f"the domain classifier is right {mean:.0%} of the time: the domains stay apart, and adaptation has little "
        "effect. Raise discrepancy.weight, lower train.adversary.lr, or let it read a smaller layer with "
        "transform.features.",
    )


def few_classes(now: Tensor, before: Tensor, names: Sequence[str], config: HealthConfig) -> Symptom | None:
    """Target predictions collapse onto few classes; ``now`` and ``before`` are frequencies."""
    left, had = effective_classes(now), effective_classes(before)
    if left >= config.few_classes * had:
        return None
    top = int(now.argmax())
    return Symptom(
        "classes_collapse",
        had / left,
        f"target predictions collapse onto few classes: about {left:.1f} classes are in use, the source network used "
        f"{had:.1f}; {now[top]:.0%} of the target images are now '{names[top]}'. Lower discrepancy.weight or "
        "train.network.lr, train for fewer steps, or choose an earlier checkpoint with --select infomax. If the target "
        "really holds only these classes, all is well.",
    )


def prior_drift(
    now: Tensor, before: Tensor, source: Tensor, names: Sequence[str], config: HealthConfig
) -> Symptom | None:
    """Predicted frequencies are far from the source network's predictions and from the source's own frequencies.

    Far from one of them alone is no sign of trouble: alignment draws predictions to the source's frequencies.
    """
    moved = min(total_variation(now, before), total_variation(now, source))
    if moved <= config.drift:
        return None
    more, less = int((now - before).argmax()), int((before - now).argmax())
    return Symptom(
        "prior_drift",
        moved,
        f"predicted class frequencies of the target drift away ({moved:.0%} of the images): '{names[more]}' went from "
        f"{before[more]:.0%} to {now[more]:.0%}, '{names[less]}' from {before[less]:.0%} to {now[less]:.0%}. Look at "
        "the examples in the report; if they are wrong, lower discrepancy.weight or choose an earlier checkpoint with "
        "--select infomax.",
    )


def barrier(energies: Sequence[float], config: HealthConfig) -> Symptom | None:
    r"""The energy :math:`L_\omega` of Eq. 8, held near 1 by the stream loss, has left its place."""
    recent = list(energies[-3:])
    high, low = min(recent, default=1.0) > config.energy, max(recent, default=1.0) < 1 / config.energy
    if len(recent) < 3 or not (high or low):
        return None
    last = recent[-1]
    what = "far above" if high else "far below"
    advice = "Raise stream_weight" if high else "Lower rank.step, or raise stream_weight"
    severity = abs(math.log10(max(last, 1e-30)))
    return Symptom(
        "barrier",
        severity,
        "the stream loss no longer holds: the distance of the target's weights from the source's (energy) is "
        f"{last:.3g}, {what} 1. {advice}, or lower train.transform.lr and train.network.lr.",
    )


def all_shared(ranks: Mapping[str, tuple[int, int]]) -> Symptom | None:
    """Rank selection has removed every transform."""
    if not ranks or any(min(pair) > 0 for pair in ranks.values()):
        return None
    return Symptom(
        "ranks_zero",
        1.0,
        "all ranks are zero: rank selection has removed every transform, so source and target now share all weights "
        "and training continues as plain domain confusion. Lower rank.step or rank.weight, or raise rank.every.",
    )


def source_falling(now: float, best: float, config: HealthConfig) -> Symptom | None:
    """The source stream forgets what it knew; both are shares."""
    drop = best - now
    if drop <= config.source_drop:
        return None
    return Symptom(
        "source_falling",
        drop,
        f"accuracy on the source fell from {best:.0%} to {now:.0%}: the network forgets its classes. Lower "
        "train.network.lr or discrepancy.weight, or keep the source network as it is with freeze = 'base'.",
    )


def effective_classes(frequencies: Tensor) -> float:
    """How many equally frequent classes would have this entropy."""
    return float(torch.special.entr(frequencies.double()).sum().exp())


def total_variation(p: Tensor, q: Tensor) -> float:
    """Share of one distribution that has to move to give the other."""
    return float((p - q).abs().sum()) / 2
