from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from residapt.errors import ConfigError, DataError
from residapt.evaluate import snd as module
from residapt.evaluate.evidence import Evidence
from residapt.evaluate.snd import neighbourhood_density, snd


def slow_density(probabilities: list[list[float]], temperature: float) -> float:
    unit = [[v / math.sqrt(sum(w * w for w in row)) for v in row] for row in probabilities]
    total = 0.0
    for i, u in enumerate(unit):
        s = [sum(a * b for a, b in zip(u, v, strict=True)) / temperature for v in unit]
        s[i] = -1 / temperature
        top = max(s)
        exps = [math.exp(v - top) for v in s]
        q = [e / sum(exps) for e in exps]
        total -= sum(v * math.log(v) for v in q if v > 0)
    return total / len(unit)


def predictions(rows: int, classes: int, seed: int, scale: float = 2.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(rows, classes, generator=generator, dtype=torch.float64) * scale).softmax(dim=1)


def evidence(logits: Tensor) -> Evidence:
    source = torch.zeros(1, logits.shape[1])
    return Evidence(source, torch.tensor([0]), torch.zeros(1, 1), logits, torch.zeros(len(logits), 1))


@given(rows=st.integers(2, 12), seed=st.integers(0, 1000), temperature=st.floats(0.02, 2))
def test_density_equals_the_loop(rows: int, seed: int, temperature: float) -> None:
    p = predictions(rows, 3, seed)
    expected = slow_density(p.tolist(), temperature)
    assert neighbourhood_density(p, temperature) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("entries", [1, 7, 23, 50, 10_000])
def test_blocks_of_any_size_give_the_same(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    p = predictions(23, 4, 0)
    whole = neighbourhood_density(p, 0.05)
    monkeypatch.setattr(module, "BLOCK_ENTRIES", entries)
    assert neighbourhood_density(p, 0.05) == pytest.approx(whole, rel=1e-12)


def test_no_block_is_larger_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    original = module._block_entropy

    def spy(p: Tensor, start: int, stop: int, temperature: float) -> float:
        sizes.append((stop - start) * len(p))
        return original(p, start, stop, temperature)

    monkeypatch.setattr(module, "_block_entropy", spy)
    monkeypatch.setattr(module, "BLOCK_ENTRIES", 100)
    neighbourhood_density(predictions(23, 4, 0), 0.05)
    assert max(sizes) <= 100
    assert sum(sizes) == 23 * 23


def test_k_sure_classes_have_the_density_of_their_size() -> None:
    """Each sample is equally near to the 3 others of its class and far from the rest."""
    logits = torch.eye(5).repeat(4, 1) * 1000
    assert snd(evidence(logits)) == pytest.approx(math.log(3), abs=1e-4)


def test_a_collapse_has_the_largest_density() -> None:
    collapsed = torch.tensor([[1000.0, 0.0, 0.0]]).repeat(12, 1)
    assert snd(evidence(collapsed)) == pytest.approx(math.log(11))


def test_subsampling_is_repeatable_and_bounds_the_density() -> None:
    big = evidence(predictions(200, 3, 1).log())
    assert snd(big, subsample=20) == snd(big, subsample=20)
    assert snd(big, subsample=20) <= math.log(20)
    assert snd(big, subsample=20) != snd(big, subsample=20, seed=1)
    assert snd(big, subsample=None) == snd(big)


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(ConfigError, match="positive"):
        snd(evidence(torch.zeros(3, 2)), temperature=0)
    with pytest.raises(DataError, match=r"\b2\b"):
        snd(evidence(torch.zeros(1, 2)))
