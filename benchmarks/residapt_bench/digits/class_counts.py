"""Tasks with other class frequencies than their files have, to test what is assumed about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from residapt.data.imageset import ImageSet
from residapt.errors import DataError
from residapt_bench.plan import Counts

SKEW = 1.25
"""How many times as frequent each class of a skewed target is as the one before: 3 % zeros, 22 % nines."""


def skewed(classes: int) -> list[float]:
    """Frequencies that grow from class to class; of ten, 0.26 in total variation from flat ones."""
    weights = [SKEW**k for k in range(classes)]
    return [weight / sum(weights) for weight in weights]


def largest_subset(labels: Tensor, frequencies: Sequence[float], seed: int = 0) -> Tensor:
    """Sorted indices of as many samples as can have these class frequencies; within a class they are random."""
    counts = torch.bincount(labels, minlength=len(frequencies)).tolist()
    total = min(count / share for count, share in zip(counts, frequencies, strict=True) if share > 0)
    if total < len(frequencies):
        raise DataError(f"class counts {counts} leave no subset with the frequencies {list(frequencies)}.")
    generator = torch.Generator().manual_seed(seed)
    chosen = []
    for label, share in enumerate(frequencies):
        members = (labels == label).nonzero().flatten()
        order = torch.randperm(len(members), generator=generator)
        chosen.append(members[order[: int(total * share + 1e-9)]])
    return torch.cat(chosen).sort().values


def with_counts(data: ImageSet, counts: Counts, *, target: bool) -> ImageSet:
    """The images of a set that belong to a task with these class counts."""
    if counts == "all" or (counts == "skewed" and not target):
        return data
    classes = len(data.classes)
    frequencies = skewed(classes) if counts == "skewed" else [1.0 / classes] * classes
    return data.subset(largest_subset(data.labels, frequencies), f"{data.name} {counts}")


def with_truth(prior: Mapping[str, Any], labels: Tensor) -> dict[str, Any]:
    """The class frequencies that a method assumed, beside the target's true ones; for the record alone."""
    assumed = torch.tensor(prior["target"], dtype=torch.float64)
    truth = torch.bincount(labels, minlength=len(assumed)).double() / len(labels)
    distance = 0.5 * float((assumed - truth).abs().sum())
    return {**prior, "truth": [round(x, 5) for x in truth.tolist()], "distance": round(distance, 5)}
