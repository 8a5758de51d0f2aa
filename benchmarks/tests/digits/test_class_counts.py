"""Subsets with other class frequencies, and the truth beside what was assumed."""

from __future__ import annotations

import pytest
import torch

from residapt.data.imageset import ImageSet
from residapt.errors import DataError
from residapt_bench.digits.class_counts import largest_subset, skewed, with_counts, with_truth

LABELS = torch.repeat_interleave(torch.arange(10), torch.tensor([40, 90, 60, 50, 70, 80, 65, 55, 45, 75]))


def images() -> ImageSet:
    pixels = torch.arange(len(LABELS), dtype=torch.int64) % 251
    return ImageSet(pixels.to(torch.uint8).view(-1, 1, 1, 1), LABELS, "digits", official=True)


def test_skewed_frequencies_are_far_from_flat() -> None:
    shares = skewed(10)
    assert sum(shares) == pytest.approx(1.0)
    assert 0.5 * sum(abs(share - 0.1) for share in shares) == pytest.approx(0.261, abs=1e-3)


@pytest.mark.parametrize("frequencies", [[0.1] * 10, skewed(10)])
def test_the_subset_has_the_frequencies_and_no_larger_one_would(frequencies: list[float]) -> None:
    index = largest_subset(LABELS, frequencies)
    assert torch.equal(index, index.unique())
    counts = torch.bincount(LABELS[index], minlength=10).tolist()
    total = min(n / f for n, f in zip(torch.bincount(LABELS).tolist(), frequencies, strict=True))
    for count, share in zip(counts, frequencies, strict=True):
        assert total * share - 1 < count <= total * share + 1e-6
    assert torch.equal(index, largest_subset(LABELS, frequencies))
    assert not torch.equal(index, largest_subset(LABELS, frequencies, seed=1))


def test_only_the_target_is_skewed_and_both_are_balanced() -> None:
    data = images()
    assert with_counts(data, "all", target=True) is data
    assert with_counts(data, "skewed", target=False) is data
    flat = with_counts(data, "balanced", target=False)
    assert torch.bincount(flat.labels).tolist() == [40] * 10
    assert (flat.official, flat.name) == (False, "digits balanced")
    assert torch.bincount(with_counts(data, "skewed", target=True).labels).argmax() == 9
    with pytest.raises(DataError):
        largest_subset(torch.tensor([0, 0, 1]), [0.3, 0.3, 0.4])


def test_the_truth_stands_beside_the_estimate() -> None:
    found = with_truth({"target": [0.5, 0.3, 0.2]}, torch.tensor([0, 0, 1, 2, 2, 2, 2, 2, 2, 1]))
    assert found["truth"] == [0.2, 0.2, 0.6]
    assert found["distance"] == pytest.approx(0.4)
