"""The negative-transfer guard: did the adaptation help, judged by label-free evidence before and after it?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from residapt.evaluate.evidence import Evidence
from residapt.evaluate.measurements import Votes, measure


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
    """Share of the most confident old predictions that must be kept."""
    confidence_loss: float = 0.25
    """Relative fall of InfoMax that counts against; smaller ones are usual: source networks are overconfident."""


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
    """The rule, as a function of the measurements alone, so that it can be calibrated on recorded runs.

    1. *Alarms.* Each of them alone means False, however good the rest looks:

       - the source accuracy fell: the shared weights were damaged;
       - populated classes exchanged their samples (a swap is as confident and as well clustered as a success).
    2. *Votes*, for (+1), against (-1) or neither (0):

       - ``anchored_ami``: the predictions against clusters of the features *before* the adaptation, which no
         training can bend to fit;
       - ``class_ami``: each network's predictions against clusters of its own features, which a damaged
         network can have bent to its mistakes;
       - ``sure_agreement``: the most confident quarter of the source-only predictions should survive (-1 or 0);
       - ``frequency_shift``: the class frequencies should be near one of three references: the source
         labels, the source-only network's predictions, or the more confident half of those (-1 or 0). A target that
         really lacks classes is far from the first only;
       - ``lost_mass``: classes that are frequent in all three references should not vanish. The vote against
         counts twice, so that a collapse cannot be outvoted;
       - ``infomax``: only against, after a large fall. Confidence never counts for an adaptation, because
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
    less_confident = votes["infomax"][1] < (1 - config.confidence_loss) * votes["infomax"][0]
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
        (
            -(kept < config.sure_agreement),
            f"only {kept:.0%} of the source network's most confident predictions were kept",
        ),
        (
            -(shift > config.frequency_shift),
            f"{shift:.0%} of the images or more would have to change class to give usual class frequencies",
        ),
        (-2 * (lost >= config.lost_mass), f"classes with {lost:.0%} of the images vanished (collapse)"),
        (-less_confident, "predictions are much less confident or less varied (InfoMax): " + _text(votes, "infomax")),
    )


def _ami_vote(pair: tuple[float, float], config: GuardConfig) -> int:
    change = pair[1] - pair[0]
    return (change > config.ami_gain) - (change < -config.ami_loss)


def _text(votes: Mapping[str, tuple[float, float]], name: str) -> str:
    return f"{votes[name][0]:.3f} before, {votes[name][1]:.3f} after"
