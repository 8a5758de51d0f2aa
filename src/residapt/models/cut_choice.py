"""How many of a network's first stages to freeze, so that what remains can be trained in the time there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from residapt.models.cut_points import CutPoint

TRAINING_SHARE = 0.75
"""Share of the allowed time for training; the rest is reading, scoring and the report. What fits on a GPU is trained
whole."""
AIM = 0.35
"""Share of the allowed time for computing views and for training on a processor. The time allowed is a limit: on a
slower or busier machine the run takes more of it, before it takes fewer steps."""
STEP = 3.7
"""Time of a training step to that of a forward pass over its images: forward, backward, optimiser, transforms."""
LEAST_TRAINED = 0.2
"""Share of the parameters that stays trainable, however short the time is."""
VIEWS_SHARE = 0.2
"""Share of the allowed time that computing views may take: else there are fewer views."""
FEWEST_VIEWS = 2
"""With one view, training would see the same pixels every time."""
NEAR = 0.05
"""Share of the forward pass's time within which two cuts cost nearly the same."""
BLOCK = 1 / 3
"""Most of the forward pass's time that a single block takes."""
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
        """The same work with as many views as can be computed in ``seconds``, but not fewer than two."""
        possible = seconds / max(self.images * point.seconds_before, 1e-12) - 1
        return replace(self, views=max(min(self.views, int(min(possible, self.views))), min(self.views, FEWEST_VIEWS)))

    def bytes(self, point: CutPoint) -> int:
        """Size of all cached outputs."""
        return self.images * (1 + self.views) * prod(point.shape) * self.bytes_per_value


@dataclass(frozen=True)
class CutChoice:
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


def choose_cut(
    points: Sequence[CutPoint], work: Work, *, minutes: float, pretrained: bool, accelerated: bool = False
) -> CutChoice:
    """The cut for ``--freeze auto``.

    * A network without pre-trained weights is trained whole: its first stages know nothing yet.
    * So is one whose steps all fit into the time allowed on a GPU, or into a third of it on a processor, which other
      programs use as well, and one that cannot be cut.
    * Else as few stages are frozen as let the steps fit. Of cuts that cost nearly the same the one with the
      smallest output is taken, since that is what has to be kept; never one in the middle of a block that ends with a
      much smaller output.
    * There are fewer views of the images than set where computing them would take too much of the time.
    * Where not even the deepest cut is enough, it is taken all the same, and there will be fewer steps. The deepest
      one is that which leaves a fifth of the parameters to train.

    Args:
        points: What :func:`cut_points` has found and measured, on the device and at the size that will be used.
        work: Images, steps and batch size.
        minutes: Time for the whole run; 0 sets no limit.
        pretrained: Whether the weights were trained on something.
        accelerated: Whether the device is another one than the processor.
    """
    if not pretrained:
        return CutChoice(None, "the network has no pre-trained weights, so that all of it is trained.")
    if not points:
        return CutChoice(None, "the network cannot be cut, so that all of it is trained.")
    whole = points[0].seconds_before + points[0].seconds_after
    needed = work.seconds(None, whole)
    if not minutes or needed <= 60.0 * (TRAINING_SHARE if accelerated else AIM) * minutes:
        return CutChoice(None, f"all layers can be trained in {_minutes(needed)}.")
    seconds, for_views = 60.0 * AIM * minutes, 60.0 * VIEWS_SHARE * minutes
    costs = {p.name: work.with_views_for(p, for_views).seconds(p, whole) for p in points}
    allowed = [p for p in points if 1 - p.parameters >= LEAST_TRAINED and work.bytes(p) <= CACHE]
    inside = _inside_blocks(points)
    gain = [p for p in _without_wide(allowed, work) if costs[p.name] < needed and p.name not in inside]
    if not gain:
        return CutChoice(None, "no cut of the network would save time, so that all of it is trained.")
    fitting = [point for point in gain if costs[point.name] <= seconds]
    first = fitting[0] if fitting else min(gain, key=lambda point: costs[point.name])
    near = [p for p in fitting or gain if abs(p.time - first.time) <= NEAR and costs[p.name] <= 1.1 * costs[first.name]]
    point = min(near, key=lambda p: (work.bytes(p), p.name.count("."), p.time))
    reason = (
        f"training all layers would take {_minutes(needed)}, training those after '{point.name}' takes "
        f"{_minutes(costs[point.name])}."
    )
    return CutChoice(point, reason, work.with_views_for(point, for_views).views)


def _inside_blocks(points: Sequence[CutPoint]) -> set[str]:
    """Names of points in the middle of a block: its output is at most half as large.

    A block is a module that ends at a later point, and takes a small part of the forward pass. That is far from the
    share of modules that hold all stages, so that it does not depend on how exact the times are.
    """
    found = set()
    for number, end in enumerate(points):
        for name in end.names:
            begun = [p for p in points[:number] if p.name.startswith(f"{name}.")]
            if begun and end.time - begun[0].time <= BLOCK:
                found |= {p.name for p in begun if 2 * prod(end.shape) <= prod(p.shape)}
    return found


def _without_wide(points: list[CutPoint], work: Work) -> list[CutPoint]:
    """Without points whose output is much larger than another close by."""
    return [
        p
        for p in points
        if not any(abs(q.time - p.time) <= NEAR and 2 * work.bytes(q) <= work.bytes(p) for q in points)
    ]


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} minutes"
