"""Which samples: random subsets, disjoint halves of every class, and targets with other classes or frequencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from residapt_bench.proving_ground.pair import (
    UNKNOWN,
    Maker,
    Place,
    Rendered,
    Samples,
    as_tensor,
    random_numbers,
    require,
)

Numbers = NDArray[np.int64]


def some(available: int, count: int, rng: np.random.Generator) -> Tensor:
    """``count`` of ``available`` samples, in their order; all of them where there are fewer."""
    return as_tensor(np.sort(rng.permutation(available)[:count]).astype(np.int64))


def halves(labels: Tensor, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Two disjoint halves of every class; of an odd number the second half has one more."""
    first: list[NDArray[Any]] = []
    second: list[NDArray[Any]] = []
    for label in range(int(labels.max()) + 1):
        members = np.flatnonzero(labels.numpy() == label)
        mixed = rng.permutation(members)
        first.append(mixed[: len(members) // 2])
        second.append(mixed[len(members) // 2 :])
    return (as_tensor(np.sort(np.concatenate(first))), as_tensor(np.sort(np.concatenate(second))))


def skewed_frequencies(classes: int, ratio: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Geometric class frequencies, the most frequent ``ratio`` times the rarest, in random order."""
    require(classes > 1 and ratio >= 1, f"skewed frequencies need 2 classes and a ratio of 1, got {classes}, {ratio}.")
    steps = np.array([float(ratio) ** (-k / (classes - 1)) for k in range(classes)])
    shares: NDArray[np.float64] = (steps / steps.sum())[rng.permutation(classes)]
    return shares


def counts_for(frequencies: NDArray[np.float64], available: Numbers) -> Numbers:
    """The largest counts with these frequencies that the available samples allow, one of each class at least."""
    total = float(np.min(available / frequencies))
    return np.clip(np.floor(frequencies * total + 0.5), 1, available).astype(np.int64)


def with_frequencies(samples: Samples, frequencies: NDArray[np.float64], rng: np.random.Generator) -> Samples:
    """As many samples as possible with these class frequencies."""
    labels = samples.labels.numpy()
    counts = counts_for(frequencies, np.bincount(labels, minlength=len(frequencies)))
    chosen = [rng.permutation(np.flatnonzero(labels == k))[:n] for k, n in enumerate(counts)]
    return samples.take(as_tensor(np.sort(np.concatenate(chosen)).astype(np.int64)))


def skewed(place: Place, seed: int, *, base: Maker, ratio: float) -> Rendered:
    """``base`` with other class frequencies in the target, the same in what is trained on and what is scored."""
    pair = base(place, seed)
    rng = random_numbers("skewed", seed)
    frequencies = skewed_frequencies(len(pair.classes), ratio, rng)
    target = with_frequencies(pair.target, frequencies, rng)
    test = None if pair.test is None else with_frequencies(pair.test, frequencies, rng)
    return replace(pair, target=target, test=test)


def partial_target(place: Place, seed: int, *, base: Maker, missing: Sequence[int]) -> Rendered:
    """``base`` without the samples of the ``missing`` classes in the target."""
    pair = base(place, seed)
    require_classes(missing, len(pair.classes))

    def left(samples: Samples) -> Samples:
        return samples.take(~torch.isin(samples.labels, torch.tensor(list(missing))))

    return replace(pair, target=left(pair.target), test=None if pair.test is None else left(pair.test))


def open_target(place: Place, seed: int, *, base: Maker, unknown: Sequence[int]) -> Rendered:
    """``base`` without the ``unknown`` classes in the source; the target keeps them, and they are not scored."""
    pair = base(place, seed)
    require_classes(unknown, len(pair.classes))
    known = [k for k in range(len(pair.classes)) if k not in set(unknown)]
    numbers = torch.full((len(pair.classes),), UNKNOWN)
    numbers[known] = torch.arange(len(known))

    def renumbered(samples: Samples) -> Samples:
        return Samples(samples.images, numbers[samples.labels])

    source, target, test = (renumbered(samples) for samples in (pair.source, pair.target, pair.scored))
    return replace(
        pair,
        source=source.take(source.labels != UNKNOWN),
        target=target,
        test=test.take(test.labels != UNKNOWN),
        classes=tuple(pair.classes[k] for k in known),
    )


def require_classes(left_out: Sequence[int], classes: int) -> None:
    """Refuse class numbers that do not exist, and leaving fewer than two."""
    good = set(left_out) <= set(range(classes)) and 0 < len(set(left_out)) <= classes - 2
    require(good, f"classes to leave out must be among 0 to {classes - 1} and leave two, got {tuple(left_out)}.")
