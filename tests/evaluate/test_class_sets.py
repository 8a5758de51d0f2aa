"""Classes that the target lacks: predicted by mistake now and then, but not with confidence by either network."""

from __future__ import annotations

import pytest
import torch

from residapt.evaluate.class_sets import absent_classes, absent_note
from residapt.evaluate.evidence import Evidence

CLASSES = 4
FLAT = torch.full((CLASSES,), 0.25)


def outputs(confident: list[int], doubtful: list[int]) -> Evidence:
    """So many confident predictions of each class, and so many doubtful ones."""
    numbers = torch.arange(CLASSES)
    labels = torch.cat([numbers.repeat_interleave(torch.tensor(counts)) for counts in (confident, doubtful)])
    scale = torch.cat([torch.full((sum(confident),), 9.0), torch.full((sum(doubtful),), 1.0)])
    logits = scale[:, None] * torch.eye(CLASSES)[labels]
    source = torch.arange(8) % CLASSES
    return Evidence(torch.eye(CLASSES)[source], source, torch.zeros(8, 1), logits, torch.zeros(len(logits), 1))


HALF = [21, 20, 0, 0]
DOUBTFUL = outputs(HALF, [5, 5, 15, 14])
"""The last two classes are predicted often, and never with confidence."""


@pytest.mark.parametrize(
    ("before", "after", "absent"),
    [
        (DOUBTFUL, DOUBTFUL, [2, 3]),
        (DOUBTFUL, outputs([14, 13, 14, 0], [10, 10, 10, 9]), [3]),  # found by adaptation
        (outputs([11, 10, 10, 10], [10, 10, 10, 9]), DOUBTFUL, []),  # lost by it: a collapse, if they are there
        (outputs([20, 20, 1, 0], [10, 10, 10, 9]), DOUBTFUL, [2, 3]),  # a tenth of what would be expected
        (outputs([19, 20, 2, 0], [10, 10, 10, 9]), DOUBTFUL, [3]),
    ],
)
def test_both_networks_must_miss_a_class(before: Evidence, after: Evidence, absent: list[int]) -> None:
    assert absent_classes(before, after, FLAT) == absent


def test_rare_classes_and_few_samples_say_nothing() -> None:
    rare = torch.tensor([0.4, 0.4, 0.19, 0.01])
    assert absent_classes(DOUBTFUL, DOUBTFUL, rare) == [2]
    few = outputs([10, 9, 0, 0], [4, 4, 5, 5])  # the confident half are 19: 4.75 of each class
    assert absent_classes(few, few, FLAT) == []
    enough = outputs([11, 10, 0, 0], [5] * 4)
    assert absent_classes(enough, enough, FLAT) == [2, 3]


def test_equally_confident_predictions_are_all_counted() -> None:
    """All are as confident as the median; none is left out by its place."""
    seen = outputs([20] * 4, [0] * 4)
    assert absent_classes(seen, seen, FLAT) == []


def test_many_absent_classes_are_counted_in_the_note() -> None:
    names = [f"class {place}" for place in range(10)]
    text = absent_note(range(1, 10), names)
    assert "9 of 10" in text
    assert "'class 5' and 4 more" in text
    assert "'class 6'" not in text
    assert "more" not in absent_note([3], names)
