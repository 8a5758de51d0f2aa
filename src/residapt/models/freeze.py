"""How many of a network's first stages to freeze, so that what remains can be trained in the time there is."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass, replace

from residapt.errors import ModelError
from residapt.models.cut_points import CutPoint

TRAINING_SHARE = 0.75
"""Share of the allowed time for computing views and for training; the rest is reading, scoring and the report."""
STEP = 3.7
"""Time of a training step to that of a forward pass over its images: forward, backward, optimiser, transforms."""
LEAST_TRAINED = 0.2
"""Share of the parameters that stays trainable, however short the time is."""
VIEWS_SHARE = 0.4
"""Share of the time for training that computing views may take: else there are fewer views."""
FEWEST_VIEWS = 2
"""With one view, training would see the same pixels every time."""
NEAR = 0.05
"""Share of the forward pass's time within which two cuts cost nearly the same."""
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
    """Most augmented views of each image; the image as it is comes on top."""
    bytes_per_value: int = 2
    """Of a cached number."""

    def seconds(self, point: CutPoint | None, whole: float) -> float:
        """Time of views and training with everything up to ``point`` frozen; ``whole`` is that of a forward pass."""
        if point is None:
            return self.steps * self.batch * STEP * whole
        once = self.images * (1 + self.views) * point.seconds_before
        return once + self.steps * self.batch * STEP * point.seconds_after

    def with_views_for(self, point: CutPoint, seconds: float) -> Work:
        """The same work with half of the views, or a quarter, where computing them would take too long."""
        views = self.views
        while views > FEWEST_VIEWS and self.images * (1 + views) * point.seconds_before > VIEWS_SHARE * seconds:
            views = max(FEWEST_VIEWS, views // 2)
        return replace(self, views=views)

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
    views: int = 0
    """Views of each image that there is time for; 0 where nothing is frozen."""

    @property
    def name(self) -> str | None:
        """Name of the last frozen stage."""
        return self.point.name if self.point else None


def choose_cut(points: Sequence[CutPoint], work: Work, *, minutes: float, pretrained: bool) -> Choice:
    """The cut for ``--freeze auto``.

    * A network without pre-trained weights is trained whole: its first stages know nothing yet.
    * So is one whose steps all fit into the time allowed, as on most GPUs, and one that cannot be cut.
    * Else as few stages are frozen as let the steps fit. Of cuts that cost nearly the same the one with the
      smallest output is taken, since that is what has to be kept; it is the end of a block in most networks.
    * Views of the images are fewer than asked for where computing them would take too much of the time.
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
    costs = {p.name: work.with_views_for(p, seconds).seconds(p, whole) for p in points}
    allowed = [p for p in points if 1 - p.parameters >= LEAST_TRAINED and work.bytes(p) <= CACHE]
    gain = [p for p in _without_wide(allowed, work) if costs[p.name] < needed]
    if not gain:
        return Choice(None, "no cut of the network would save time, so that all of it is trained.")
    fitting = [point for point in gain if costs[point.name] <= seconds]
    first = fitting[0] if fitting else min(gain, key=lambda point: costs[point.name])
    near = [p for p in fitting or gain if abs(p.time - first.time) <= NEAR and costs[p.name] <= 1.1 * costs[first.name]]
    point = min(near, key=lambda p: (work.bytes(p), p.name.count("."), p.time))
    reason = (
        f"{_minutes(needed)} would be needed to train all layers; up to '{point.name}' they are frozen, and "
        f"{_minutes(costs[point.name])} remain."
    )
    return Choice(point, reason, work.with_views_for(point, seconds).views)


def _without_wide(points: list[CutPoint], work: Work) -> list[CutPoint]:
    """Without points in the middle of a block, where the output is much larger than at an end close by."""
    return [
        p
        for p in points
        if not any(abs(q.time - p.time) <= NEAR and 2 * work.bytes(q) <= work.bytes(p) for q in points)
    ]


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


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} minutes"
