"""How many of a network's first stages to freeze, so that what remains can be trained in the time there is."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

from residapt.errors import ModelError
from residapt.models.cut_points import CutPoint

TRAINING_SHARE = 0.75
"""Share of the allowed time for computing views and for training; the rest is reading, scoring and the report."""
STEP = 3.2
"""Time of a training step to that of a forward pass over its images: forward, backward, optimiser, transforms."""
LEAST_TRAINED = 0.2
"""Share of the parameters that stays trainable, however short the time is."""
CACHE = 8e9
"""Bytes of cached outputs that are not exceeded."""


@dataclass(frozen=True)
class Work:
    """What has to be done in the time allowed."""

    images: int
    """Images of all domains, whose views are computed once."""
    steps: int
    """Training steps, of the source network and of the adaptation together."""
    batch: int
    """Images in a step, of both domains."""
    views: int = 8
    """Augmented views of each image; the image as it is comes on top."""
    bytes_per_value: int = 2
    """Of a cached number."""

    def seconds(self, point: CutPoint | None, whole: float) -> float:
        """Time of views and training with everything up to ``point`` frozen; ``whole`` is that of a forward pass."""
        if point is None:
            return self.steps * self.batch * STEP * whole
        once = self.images * (1 + self.views) * point.seconds_before
        return once + self.steps * self.batch * STEP * point.seconds_after

    def bytes(self, point: CutPoint) -> int:
        """Size of all cached outputs."""
        values = 1
        for side in point.shape:
            values *= side
        return self.images * (1 + self.views) * values * self.bytes_per_value


@dataclass(frozen=True)
class Choice:
    """Where a network is cut."""

    point: CutPoint | None
    """The end of the last frozen stage; None where the whole network is trained."""
    reason: str
    """Why, in one sentence."""

    @property
    def name(self) -> str | None:
        """Name of the last frozen stage."""
        return self.point.name if self.point else None


def choose_cut(points: Sequence[CutPoint], work: Work, *, minutes: float, pretrained: bool) -> Choice:
    """The cut for ``--freeze auto``.

    * A network without pre-trained weights is trained whole: its first stages know nothing yet.
    * So is one whose steps all fit into the time allowed, as on most GPUs, and one that cannot be cut.
    * Else as few stages are frozen as let the steps fit. Of cuts that cost nearly the same the one with the
      smallest output is taken, since that is what has to be kept.
    * Where not even the deepest cut is enough, it is taken all the same, and there will be fewer steps. The deepest
      one is that which leaves a fifth of the parameters to train.

    Args:
        points: What :func:`cut_points` has found and measured, on the device and at the size that will be used.
        work: Images, steps and batch size.
        minutes: Time for the whole run; 0 sets no limit.
        pretrained: Whether the weights were trained on something.
    """
    if not pretrained:
        return Choice(None, "the network has no pre-trained weights, so that all of it is trained.")
    if not points:
        return Choice(None, "the network cannot be cut, so that all of it is trained.")
    seconds = 60.0 * TRAINING_SHARE * minutes
    whole = points[0].seconds_before + points[0].seconds_after
    needed = work.seconds(None, whole)
    if not minutes or needed <= seconds:
        return Choice(None, f"all layers can be trained in {_minutes(needed)}.")
    allowed = [p for p in points if 1 - p.parameters >= LEAST_TRAINED and work.bytes(p) <= CACHE]
    gain = [point for point in allowed if work.seconds(point, whole) < needed]
    if not gain:
        return Choice(None, "no cut of the network would save time, so that all of it is trained.")
    fitting = [point for point in gain if work.seconds(point, whole) <= seconds]
    first = fitting[0] if fitting else min(gain, key=lambda point: work.seconds(point, whole))
    point = _smallest_near(first, fitting or gain, work, whole)
    return Choice(
        point,
        f"{_minutes(needed)} would be needed to train all layers; up to '{point.name}' they are frozen, and "
        f"{_minutes(work.seconds(point, whole))} remain.",
    )


def match_cut(points: Sequence[CutPoint], patterns: Sequence[str], model: str = "the network") -> CutPoint:
    """The last cut point that one of the patterns names, for instance ``layer[12]`` or ``blocks.5``.

    A pattern that names none is refused with near names.
    """
    places: list[int] = []
    names = [name for point in points for name in point.names]
    for pattern in patterns:
        hits = [i for i, point in enumerate(points) if any(fnmatch.fnmatchcase(name, pattern) for name in point.names)]
        if not hits:
            near = difflib.get_close_matches(pattern, names, n=3, cutoff=0.3) or names[:3]
            can = f"It can be cut after {', '.join(near)}." if near else "It cannot be cut at all: set freeze to none."
            raise ModelError(
                f"freeze: '{pattern}' matches none of the {len(points)} places where {model} can be cut. {can}"
            )
        places += hits
    if not places:
        raise ModelError("freeze: no pattern was given. Name a stage, or set freeze to auto or none.")
    return points[max(places)]


def _smallest_near(first: CutPoint, points: Sequence[CutPoint], work: Work, whole: float) -> CutPoint:
    """Of the points with nearly the same cost, the one whose output is the smallest and whose name is the shortest."""
    limit = 1.1 * work.seconds(first, whole)
    near = [p for p in points if abs(p.time - first.time) <= 0.05 and work.seconds(p, whole) <= limit]
    return min(near, key=lambda p: (work.bytes(p), p.name.count("."), p.time))


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} minutes"
