"""Who may see target labels: the one door between labelled target images and training.

A :class:`~residapt.data.domains.DomainPair` has no field for the labels of the unlabelled target. Callers
that hold such labels, to score with, pass them here as ``target_labels`` for every method alike; only the
oracle gets them.
"""

from __future__ import annotations

from residapt.data.domains import DomainPair, Labelled
from residapt.errors import ConfigError
from residapt.methods.fine_tune import FineTune, needs_labels
from residapt.methods.pooled import Pooled
from residapt.methods.target_only import TargetOnly
from residapt.train.method import Method


def is_oracle(method: Method) -> bool:
    """Whether a method trains on labels of the target; its results are no results of adaptation."""
    return isinstance(method, TargetOnly)


def training_pair(method: Method, pair: DomainPair, target_labels: Labelled | None = None) -> DomainPair:
    """The pair that a method trains on; only the oracle's holds ``target_labels``.

    The oracle gets the labelled target in the source's place: ``target_labels``, or the few labelled images
    of the pair where that is all there is.
    """
    if isinstance(method, (FineTune, Pooled)) and pair.few is None:
        raise ConfigError(needs_labels(method.name))
    if not is_oracle(method):
        return pair
    labelled = pair.few if target_labels is None else target_labels
    if labelled is None:
        raise ConfigError(
            f"method '{method.name}' is the oracle and needs labelled target images, but none were given. "
            "Give them as target_labels, or leave the method out."
        )
    return DomainPair(source=labelled, target=labelled.images, balance=pair.balance)
