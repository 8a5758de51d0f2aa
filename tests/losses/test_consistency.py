"""Consistency of two views: plain loops, and who teaches whom."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from residapt.errors import DataError
from residapt.losses.consistency import consistency


def logits(seed: int) -> Tensor:
    return 2 * torch.randn(5, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def probabilities(rows: Tensor) -> list[list[float]]:
    result = []
    for row in rows.tolist():
        total = sum(math.exp(v) for v in row)
        result.append([math.exp(v) / total for v in row])
    return result


def test_kl_as_a_loop() -> None:
    p, q = probabilities(logits(0)), probabilities(logits(1))
    terms = [a * math.log(a / b) for one, other in zip(p, q, strict=True) for a, b in zip(one, other, strict=True)]
    assert float(consistency(logits(0), logits(1))) == pytest.approx(sum(terms) / 5)
    assert float(consistency(logits(0), logits(0))) == pytest.approx(0.0, abs=1e-12)


def test_fixmatch_as_a_loop() -> None:
    p, q = probabilities(logits(0)), probabilities(logits(1))
    threshold = sorted(max(row) for row in p)[2]
    terms = [-math.log(b[a.index(max(a))]) for a, b in zip(p, q, strict=True) if max(a) >= threshold - 1e-12]
    assert len(terms) == 3
    assert float(consistency(logits(0), logits(1), "fixmatch", threshold - 1e-12)) == pytest.approx(sum(terms) / 5)
    assert float(consistency(logits(0), logits(1), "fixmatch", 1.0)) == 0.0


@pytest.mark.parametrize("kind", ["kl", "fixmatch"])
def test_only_the_changed_view_learns(kind: str) -> None:
    teacher, student = logits(0).requires_grad_(), logits(1).requires_grad_()
    consistency(teacher, student, kind, 0.3).backward()
    assert teacher.grad is None
    assert student.grad.abs().sum() > 0


def test_two_views_of_the_same_images_are_needed() -> None:
    with pytest.raises(DataError):
        consistency(torch.zeros(2, 3), torch.zeros(3, 3))


@pytest.mark.parametrize("kind", ["kl", "fixmatch"])
def test_half_precision_is_only_that_of_the_logits(kind: str) -> None:
    rough = [logits(seed).to(torch.bfloat16) for seed in (0, 1)]
    with torch.autocast("cpu", torch.bfloat16):
        found = consistency(*rough, kind, 0.3)
    exact = consistency(*(rows.double() for rows in rough), kind, 0.3)
    assert float(found) == pytest.approx(float(exact), rel=1e-5)
