from __future__ import annotations

from dataclasses import fields

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from residapt.errors import ConfigError, DataError
from residapt.evaluate.evidence import Evidence, subset


def tensors() -> dict[str, Tensor]:
    return {
        "source_logits": torch.zeros(3, 4),
        "source_labels": torch.tensor([0, 1, 3]),
        "source_features": torch.zeros(3, 2),
        "target_logits": torch.zeros(5, 4),
        "target_features": torch.zeros(5, 2),
    }


def test_there_is_no_place_for_target_labels() -> None:
    assert {field.name for field in fields(Evidence)} == set(tensors())
    assert not [name for name in tensors() if "target" in name and "label" in name]
    with pytest.raises(TypeError):
        Evidence(**tensors(), target_labels=torch.zeros(5))  # type: ignore[call-arg]


def test_classes() -> None:
    assert Evidence(**tensors()).classes == 4


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("source_logits", torch.zeros(3, 5), "classes: 5 and 4"),
        ("target_features", torch.zeros(5, 3), "features: 2 and 3"),
        ("source_features", torch.zeros(2, 2), "source samples: 3 and 2"),
        ("target_features", torch.zeros(4, 2), "target samples: 5 and 4"),
        ("target_features", torch.zeros(5, 2, 1), r"flatten\(1\)"),
        ("target_logits", torch.zeros(5, 4, dtype=torch.long), "floating-point"),
        ("target_logits", torch.full((5, 4), float("nan")), "not finite"),
        ("target_logits", torch.zeros(0, 4), "at least one row"),
        ("target_logits", torch.zeros(5, 4, device="meta"), "on the CPU"),
        ("source_labels", torch.zeros(3), "integers"),
        ("source_labels", torch.tensor([0, 1]), "3 integers"),
        ("source_labels", torch.tensor([0, 1, 4]), "between 0 and 3, got 0 to 4"),
        ("source_labels", torch.tensor([-1, 1, 2]), "got -1 to 2"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(name: str, value: Tensor, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Evidence(**{**tensors(), name: value})


@given(count=st.integers(1, 60), limit=st.integers(2, 60), seed=st.integers(0, 1000))
def test_a_subset_has_different_sorted_members_and_is_repeatable(count: int, limit: int, seed: int) -> None:
    chosen = subset(count, limit, seed).tolist()
    assert len(chosen) == min(count, limit)
    assert chosen == sorted(set(chosen))
    assert chosen[0] >= 0
    assert chosen[-1] < count
    assert chosen == subset(count, limit, seed).tolist()


def test_a_subset_depends_on_its_seed_only() -> None:
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    assert subset(100, 10, 0).tolist() != subset(100, 10, 1).tolist()
    assert torch.equal(torch.rand(1), expected)
    assert subset(4, None, 0).tolist() == [0, 1, 2, 3]
    with pytest.raises(ConfigError, match=r"\b2\b"):
        subset(4, 1, 0)
