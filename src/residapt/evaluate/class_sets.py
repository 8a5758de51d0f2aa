"""Does the target lack classes of the source? Seen in the predictions of the source network and the adapted one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from residapt.evaluate.evidence import Evidence

ABSENT = 0.1
"""A class is absent if both networks predict it less often than this share of its frequency in the source, among the
more confident half of their predictions: a class that the target lacks is still predicted by mistake, but rarely with
confidence."""
EXPECTED = 5.0
"""Only classes that would be expected as often as this among these predictions are judged."""
SHOWN = 5
"""Names in the note."""
ROUNDING = 1e-9


def absent_classes(before: Evidence, after: Evidence, source: Tensor) -> list[int]:
    """The numbers of the classes that the target seems to lack.

    Args:
        before: Outputs of the source network.
        after: Outputs of the adapted network on the same samples.
        source: Class frequencies of the source.
    """
    found = torch.ones(before.classes, dtype=torch.bool)
    for logits in (before.target_logits, after.target_logits):
        confidence, predicted = logits.double().softmax(1).max(1)
        confident = predicted[confidence >= confidence.median() - ROUNDING]
        counts = torch.bincount(confident, minlength=before.classes)
        expected = source.double() * len(confident)
        found &= (counts <= ABSENT * expected) & (expected >= EXPECTED)
    return [int(k) for k in found.nonzero()]


def absent_note(absent: Sequence[int], names: Sequence[str]) -> str:
    """What a person should know of classes that the target seems to lack."""
    shown = ", ".join(f"'{names[k]}'" for k in absent[:SHOWN])
    more = f" and {len(absent) - SHOWN} more" if len(absent) > SHOWN else ""
    return (
        f"the target seems to lack {len(absent)} of {len(names)} source classes: {shown}{more}. They are (almost) "
        "never predicted with confidence, neither by the source network nor after adaptation. If the target really "
        "lacks them, leave their folders out of the source and adapt again: aligning domains whose classes differ "
        "pushes images into wrong classes. If not, they are being missed: label a few images and check."
    )
