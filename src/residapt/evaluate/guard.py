"""The negative-transfer guard: did the adaptation help, judged by label-free evidence before and after it?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from residapt.evaluate.evidence import Evidence
from residapt.evaluate.measurements import Votes, measure


@dataclass(frozen=True)
class GuardConfig:
    """Thresholds of :func:`decide`."""

    source_drop: float = 0.2
    """Alarm when the source accuracy falls by more than this."""
    lost_mass: float = 0.25
    """Alarm when classes that vanished made up at least this share of every reference."""
    renamed_classes: float = 1.0
    """Alarm when at least this many classes of average size exchanged their samples."""
    own_loss: float = 0.01
    """Fall of the agreement with the network's own clusters that counts against the adapted network, where InfoMax fell
    as well or the agreement with the source network's clusters fell far."""
    own_gain: float = 0.05
    """Rise of it that counts for it."""
    anchored_loss: float = 0.05
    """Fall of the agreement with the source network's clusters that counts against it, together with the next two."""
    anchored_large: float = 0.15
    """A far fall of it."""
    overturned: float = 0.09
    """Share of the most confident old predictions that were changed, times how well the old predictions agreed with
    clusters: changing what a poor source network was confident of says little."""
    information_loss: float = 0.02
    """Relative fall of InfoMax."""
    collapsed: float = 0.5
    """A source network whose predicted class frequencies are further from the source's than this had most images wrong,
    if those are the target's: without a fall of InfoMax its predictions may be overturned."""


@dataclass(frozen=True)
class Judgement:
    """What the guard concludes."""

    helped: bool | None
    """True: select the adapted network. False: select the source network. None: no clear evidence."""
    votes: Votes
    """Every measurement, before and after."""
    reasons: tuple[str, ...]
    """What decided, in words, each marked ``for: `` or ``against: `` the adapted network."""


def compare(before: Evidence, after: Evidence, config: GuardConfig | None = None) -> Judgement:
    """Judge an adaptation from the outputs of the source-only and the adapted network on the same samples."""
    return decide(measure(before, after), config)


def decide(votes: Mapping[str, tuple[float, float]], config: GuardConfig | None = None) -> Judgement:
    """The rule, as a function of the measurements alone, so that it can be checked on recorded runs.

    1. *Alarms.* Each of them alone means False, however good the rest looks:

       - ``source_accuracy`` fell: the shared weights were damaged;
       - ``renamed_classes``: populated classes exchanged their samples (a swap is as confident and as well clustered
         as a success);
       - ``lost_mass``: classes that are frequent by the source labels, by the source network's predictions and by the
         more confident half of those vanished.
    2. *Against*, each of which means False as well:

       - ``class_ami``: predictions agree less than before with clusters of samples that look alike to the network
         itself, and either ``infomax`` fell as well or ``anchored_ami`` fell far;
       - ``anchored_ami`` and ``sure_agreement``: predictions agree less with clusters of the *source* network's
         features, which no training can bend to fit, and change what that network was most confident of, although its
         predictions agreed with those clusters; and either ``infomax`` fell as well, or the first fall is far and the
         source network had not taken most images for few classes (``frequency_shift``).
    3. *For*: ``class_ami`` rose. Without anything against, this means True; all else is None, no clear evidence.

    Confidence alone never counts, for or against: collapsed and swapped classes are predicted with confidence too.

    What no rule of this kind can see: an exchange of classes that the source-only network had wrong (it would
    be called a swap), or a swap of classes that it already confused.
    """
    config = config or GuardConfig()
    against = (*_alarms(votes, config), *_doubts(votes, config))
    rise = votes["class_ami"][1] - votes["class_ami"][0]
    gains = (_own(votes),) if rise > config.own_gain else ()
    reasons = (*(f"against: {text}" for text in against), *(f"for: {text}" for text in gains))
    helped = False if against else True if gains else None
    return Judgement(helped, dict(votes), reasons or ("nothing changed clearly",))


def _alarms(votes: Mapping[str, tuple[float, float]], config: GuardConfig) -> tuple[str, ...]:
    accuracy_before, accuracy_after = votes["source_accuracy"]
    renamed, lost = votes["renamed_classes"][1], votes["lost_mass"][1]
    found = []
    if accuracy_before - accuracy_after > config.source_drop:
        found.append(f"the source accuracy fell from {accuracy_before:.3f} to {accuracy_after:.3f}")
    if renamed >= config.renamed_classes:
        found.append(f"about {renamed:.1f} classes exchanged their samples (swap)")
    if lost >= config.lost_mass:
        found.append(f"classes with {lost:.0%} of the images vanished (collapse)")
    return tuple(found)


def _doubts(votes: Mapping[str, tuple[float, float]], config: GuardConfig) -> tuple[str, ...]:
    (own_before, own_after), (anchored_before, anchored_after) = votes["class_ami"], votes["anchored_ami"]
    kept = votes["sure_agreement"][1]
    fall, (info_before, info_after) = anchored_before - anchored_after, votes["infomax"]
    less, far = info_after < (1 - config.information_loss) * info_before, fall > config.anchored_large
    found = []
    if (less or far) and own_before - own_after > config.own_loss:
        found.append(_own(votes))
    less = less or (far and votes["frequency_shift"][0] <= config.collapsed)
    if less and fall > config.anchored_loss and (1 - kept) * own_before > config.overturned:
        found.append(
            f"only {kept:.0%} of the source network's most confident predictions were kept, and the predicted classes "
            "agree less with groups of images that look alike to it: " + _text(votes, "anchored_ami")
        )
    return tuple(found)


def _own(votes: Mapping[str, tuple[float, float]]) -> str:
    return "agreement of the predicted classes with groups of images that look alike to the network itself: " + _text(
        votes, "class_ami"
    )


def _text(votes: Mapping[str, tuple[float, float]], name: str) -> str:
    return f"{votes[name][0]:.3f} before, {votes[name][1]:.3f} after"
