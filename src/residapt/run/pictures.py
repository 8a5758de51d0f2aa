"""Pictures for the report: target images whose class changed, and both domains in two dimensions."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

import torch
from PIL import Image
from torch import Tensor

from residapt.data.domains import Images
from residapt.data.sources import OpenImages
from residapt.evaluate.evidence import Evidence, subset
from residapt.models import InputSpec
from residapt.storage.summary import ChangedPrediction, Projection, UnusualImage

MOST_EXAMPLES = 24
MOST_UNUSUAL = 12
GOLDEN = (5**0.5 - 1) / 2
MOST_POINTS = 400
"""Points of each domain in the projection."""
SIDE = 96
"""Largest side of a small picture, in pixels."""


def changed_predictions(
    before: Tensor, after: Tensor, target: OpenImages, sample: Tensor, classes: Sequence[str], form: InputSpec
) -> list[ChangedPrediction]:
    """Images whose class changed, from all new classes and all levels of confidence, the most confident first."""
    probability, new = after.softmax(1).max(1)
    old = before.argmax(1)
    changed = (old != new).nonzero().flatten()
    found: list[ChangedPrediction] = []
    for place in spread_sample(new[changed], probability[changed], changed, MOST_EXAMPLES).tolist():
        index = int(sample[place])
        found.append(
            ChangedPrediction(
                path=target.name(index),
                before=classes[int(old[place])],
                after=classes[int(new[place])],
                probability=float(probability[place]),
                thumbnail=thumbnail(target.plain, index, form),
            )
        )
    return found


def spread_sample(kinds: Tensor, values: Tensor, items: Tensor, most: int) -> Tensor:
    """At most ``most`` of ``items``: equally many of each kind, evenly over its values; largest values first."""
    order = values.argsort(stable=True)
    groups = sorted((order[kinds[order] == kind] for kind in sorted(set(kinds.tolist()))), key=len, reverse=True)
    taken = [0] * len(groups)
    while sum(taken) < min(most, len(items)):
        for number, group in enumerate(groups):
            if taken[number] < len(group) and sum(taken) < most:
                taken[number] += 1
    chosen = []
    for number, (group, count) in enumerate(zip(groups, taken, strict=True)):
        # Kinds begin at different places, so that kinds with one item each are not all taken in the middle.
        shares = (torch.arange(count, dtype=torch.float64) + (number + 1) * GOLDEN % 1) / max(count, 1)
        chosen.append(group[(shares * len(group)).long()])
    everything = torch.cat(chosen) if chosen else order
    return items[everything[values[everything].argsort(descending=True, stable=True)]]


def unusual_images(
    places: Tensor, logits: Tensor, target: OpenImages, sample: Tensor, classes: Sequence[str], form: InputSpec
) -> list[UnusualImage]:
    """The first of the images at ``places`` with what is predicted for them."""
    probability, predicted = logits.softmax(1).max(1)
    return [
        UnusualImage(
            path=target.name(int(sample[place])),
            predicted=classes[int(predicted[place])],
            probability=float(probability[place]),
            thumbnail=thumbnail(target.plain, int(sample[place]), form),
        )
        for place in places[:MOST_UNUSUAL].tolist()
    ]


def thumbnail(images: Images, index: int, form: InputSpec) -> str:
    """A small JPEG as base64; nothing for what is no picture."""
    x = images.fetch(torch.tensor([index]), torch.Generator().manual_seed(0))[0]
    if x.ndim != 3 or x.shape[0] not in (1, 3):
        return ""
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (form.mean, form.std))
    pixels = ((x * std + mean).clamp(0, 1) * 255).round().to(torch.uint8)
    array = pixels.permute(1, 2, 0).squeeze(-1).numpy() if x.shape[0] == 1 else pixels.permute(1, 2, 0).numpy()
    picture = Image.fromarray(array)
    picture.thumbnail((SIDE, SIDE))
    with io.BytesIO() as buffer:
        picture.save(buffer, "JPEG", quality=80)
        return base64.b64encode(buffer.getvalue()).decode()


def project(before: Evidence, after: Evidence) -> Projection:
    """Principal components of all four clouds together, so that before and after can be compared."""
    clouds = [
        cloud[subset(len(cloud), MOST_POINTS, seed=0)]
        for cloud in (
            before.source_features,
            before.target_features,
            after.source_features,
            after.target_features,
        )
    ]
    joint = torch.cat(clouds)
    centred = joint - joint.mean(0)
    if centred.shape[1] > 2:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            _, _, axes = torch.pca_lowrank(centred, q=min(6, *centred.shape), center=False)
        centred = centred @ axes[:, :2]
    flat = torch.cat([centred, torch.zeros(len(centred), max(0, 2 - centred.shape[1]))], dim=1)
    points = [_points(part) for part in torch.split(flat, [len(cloud) for cloud in clouds])]
    return Projection(source_before=points[0], target_before=points[1], source_after=points[2], target_after=points[3])


def _points(cloud: Tensor) -> list[tuple[float, float]]:
    return [(round(x, 4), round(y, 4)) for x, y in cloud[:, :2].tolist()]
