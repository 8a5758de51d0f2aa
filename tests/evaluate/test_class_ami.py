from __future__ import annotations

import math
import warnings

import pytest
import torch
from torch import Tensor

from residapt.evaluate.class_ami import class_ami
from residapt.evaluate.evidence import Evidence


def entropy(counts: list[int]) -> float:
    n = sum(counts)
    return -sum(c / n * math.log(c / n) for c in counts if c)


def slow_ami(a: list[int], b: list[int]) -> float:
    """(MI - E[MI]) / (mean entropy - E[MI]), with the hypergeometric expectation (Vinh et al. 2010)."""
    n = len(a)
    rows = [a.count(v) for v in sorted(set(a))]
    columns = [b.count(v) for v in sorted(set(b))]
    mi = 0.0
    for i, u in enumerate(sorted(set(a))):
        for j, v in enumerate(sorted(set(b))):
            both = sum(1 for x, y in zip(a, b, strict=True) if (x, y) == (u, v))
            if both:
                mi += both / n * math.log(n * both / (rows[i] * columns[j]))
    expected = 0.0
    for r in rows:
        for c in columns:
            for both in range(max(1, r + c - n), min(r, c) + 1):
                chance = math.comb(r, both) * math.comb(n - r, c - both) / math.comb(n, c)
                expected += both / n * math.log(n * both / (r * c)) * chance
    return (mi - expected) / ((entropy(rows) + entropy(columns)) / 2 - expected)


def clusters(labels: Tensor, seed: int = 0) -> Tensor:
    """Points around well separated corners, one corner per label."""
    noise = torch.randn(len(labels), 4, generator=torch.Generator().manual_seed(seed)) * 0.02
    return torch.eye(4)[labels] + noise


def evidence(predicted: Tensor, features: Tensor, classes: int = 4) -> Evidence:
    logits = torch.nn.functional.one_hot(predicted, classes).float()
    source = torch.zeros(1, classes)
    return Evidence(source, torch.tensor([0]), torch.zeros(1, features.shape[1]), logits, features)


LABELS = torch.arange(40) % 4


def test_predictions_that_follow_the_clusters_score_one() -> None:
    assert class_ami(evidence(LABELS, clusters(LABELS))) == pytest.approx(1.0)


def test_the_names_of_the_classes_do_not_matter() -> None:
    assert class_ami(evidence((LABELS + 1) % 4, clusters(LABELS))) == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(4))
def test_partly_wrong_predictions_score_as_the_loop_says(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    wrong = torch.rand(40, generator=generator) < 0.4
    predicted = torch.where(wrong, torch.randint(0, 4, (40,), generator=generator), LABELS)
    value = class_ami(evidence(predicted, clusters(LABELS)))
    assert value == pytest.approx(slow_ami(predicted.tolist(), LABELS.tolist()), abs=1e-9)
    assert value < 0.95


def test_independent_predictions_score_about_zero() -> None:
    labels = torch.arange(400) % 4
    predicted = torch.randint(0, 4, (400,), generator=torch.Generator().manual_seed(0))
    assert abs(class_ami(evidence(predicted, clusters(labels)))) < 0.03


def test_a_collapse_scores_zero_even_if_the_features_collapse_too() -> None:
    """Two partitions of one part each are equal, so the plain measure would give the perfect score."""
    one_class = torch.zeros(40, dtype=torch.long)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert class_ami(evidence(one_class, clusters(LABELS))) == 0.0
        assert class_ami(evidence(one_class, torch.ones(40, 4))) == 0.0
        assert class_ami(evidence(LABELS, torch.ones(40, 4))) == 0.0
        assert class_ami(evidence(LABELS % 2, torch.eye(4)[LABELS % 2])) == pytest.approx(1.0)


def test_lengths_are_ignored_unless_asked_for() -> None:
    stretched = clusters(LABELS) * (1 + 50.0 * (torch.arange(40)[:, None] % 7))
    assert class_ami(evidence(LABELS, stretched)) == pytest.approx(1.0)
    assert class_ami(evidence(LABELS, stretched), normalise=False) < 0.9


def test_the_score_is_repeatable_and_can_be_subsampled() -> None:
    generator = torch.Generator().manual_seed(0)
    data = evidence(torch.randint(0, 4, (300,), generator=generator), torch.randn(300, 4, generator=generator))
    assert class_ami(data) == class_ami(data)
    assert class_ami(data, subsample=50) == class_ami(data, subsample=50)
    assert class_ami(data, subsample=50) != class_ami(data)
