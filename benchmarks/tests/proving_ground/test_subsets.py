"""Halves, class frequencies, targets that lack classes or have others."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from residapt_bench.proving_ground.library import ConfigError
from residapt_bench.proving_ground.pair import UNKNOWN, Place, Rendered, Samples, random_numbers
from residapt_bench.proving_ground.subsets import (
    counts_for,
    halves,
    open_target,
    partial_target,
    skewed,
    skewed_frequencies,
    some,
)

PLACE = Place(Path(), Path())


def samples(count: int, classes: int, first: int) -> Samples:
    """Each image holds its own number, so that it can be recognised."""
    images = torch.arange(first, first + count, dtype=torch.int32).view(-1, 1, 1, 1)
    return Samples(images, torch.arange(count) % classes)


def base(_place: Place, _seed: int, *, transductive: bool = False) -> Rendered:
    """A pair of five classes, 100 source, 200 target and 50 scored samples."""
    test = None if transductive else samples(50, 5, 1000)
    return Rendered(samples(100, 5, 0), samples(200, 5, 500), tuple("abcde"), test)


@pytest.mark.parametrize("sizes", [(4, 5, 9), (1, 2, 30)])
def test_halves_are_disjoint_and_have_all_and_split_every_class(sizes: tuple[int, ...]) -> None:
    labels = torch.cat([torch.full((n,), k) for k, n in enumerate(sizes)])
    first, second = halves(labels, random_numbers("halves"))
    assert sorted([*first.tolist(), *second.tolist()]) == list(range(len(labels)))
    for label, size in enumerate(sizes):
        assert int((labels[first] == label).sum()) == size // 2
        assert int((labels[second] == label).sum()) == size - size // 2


def test_a_random_subset_has_no_sample_twice() -> None:
    chosen = some(100, 30, random_numbers("some")).tolist()
    assert len(set(chosen)) == 30
    assert chosen == sorted(chosen)
    assert some(5, 30, random_numbers("some")).tolist() == [0, 1, 2, 3, 4]


def test_skewed_frequencies_have_the_stated_ratio() -> None:
    shares = skewed_frequencies(10, 20.0, random_numbers("skew"))
    assert shares.sum() == pytest.approx(1)
    assert shares.max() / shares.min() == pytest.approx(20)
    ordered = np.sort(shares)
    np.testing.assert_allclose(ordered[1:] / ordered[:-1], 20 ** (1 / 9))


def test_counts_are_the_largest_with_these_frequencies() -> None:
    shares = np.array([0.5, 0.3, 0.2])
    counts = counts_for(shares, np.array([100, 100, 100]))
    assert counts.tolist() == [100, 60, 40]
    assert counts_for(np.array([0.98, 0.02]), np.array([10, 10])).tolist() == [10, 1]


@pytest.mark.parametrize("transductive", [False, True])
def test_a_skewed_target_has_the_stated_frequencies_where_it_is_trained_and_scored(transductive: bool) -> None:
    pair = skewed(PLACE, 0, base=partial(base, transductive=transductive), ratio=4.0)
    # Frequencies come first from the generator of the wrapper, so they can be drawn here again.
    shares = skewed_frequencies(5, 4.0, random_numbers("skewed", 0))
    for part in (pair.target, pair.scored):
        counts = np.bincount(part.labels.numpy(), minlength=5)
        np.testing.assert_allclose(counts / counts.sum(), shares, atol=0.5 / counts.sum() * 3)
        assert len(set(part.images.flatten().tolist())) == len(part)
    assert len(pair.source) == 100
    assert (pair.test is None) == transductive


@pytest.mark.parametrize("transductive", [False, True])
def test_a_partial_target_lacks_the_classes_and_the_source_has_all(transductive: bool) -> None:
    pair = partial_target(PLACE, 0, base=partial(base, transductive=transductive), missing=(1, 3))
    for part in (pair.target, pair.scored):
        assert set(part.labels.tolist()) == {0, 2, 4}
    assert set(pair.source.labels.tolist()) == {0, 1, 2, 3, 4}
    assert pair.classes == tuple("abcde")
    assert len(pair.target) == 120


@pytest.mark.parametrize("transductive", [False, True])
def test_an_open_target_keeps_classes_that_the_source_lacks_and_does_not_score_them(transductive: bool) -> None:
    pair = open_target(PLACE, 0, base=partial(base, transductive=transductive), unknown=(0, 3))
    assert pair.classes == ("b", "c", "e")
    plain = base(PLACE, 0)
    assert len(pair.target) == len(plain.target)
    assert float((pair.target.labels == UNKNOWN).double().mean()) == pytest.approx(0.4)
    for part in (pair.source, pair.scored):
        assert set(part.labels.tolist()) == {0, 1, 2}
        # The image's number tells its class in the base pair.
        assert [pair.classes[k] for k in part.labels.tolist()] == ["abcde"[i % 5] for i in part.images.flatten()]
    assert len(pair.scored) == (120 if transductive else 30)


@pytest.mark.parametrize("left_out", [(), (5,), (-1,), (0, 1, 2, 3)])
def test_classes_that_cannot_be_left_out_are_refused(left_out: tuple[int, ...]) -> None:
    for make in (partial(partial_target, missing=left_out), partial(open_target, unknown=left_out)):
        with pytest.raises(ConfigError) as caught:
            make(PLACE, 0, base=base)
        assert str(left_out) in str(caught.value)
