from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from residapt.train.schedule import decay, ramp


@given(p=st.floats(0, 1), gamma=st.floats(0.1, 20))
def test_the_ramp_is_that_of_dann(p: float, gamma: float) -> None:
    assert ramp(p, gamma) == pytest.approx(2 / (1 + math.exp(-gamma * p)) - 1)
    assert 0 <= ramp(p, gamma) <= 1


def test_the_ramp_starts_at_nothing_and_gamma_zero_turns_it_off() -> None:
    assert ramp(0.0) == 0.0
    assert ramp(1.0) == pytest.approx(0.9999092)
    assert ramp(0.0, gamma=0.0) == ramp(0.7, gamma=0.0) == 1.0


@pytest.mark.parametrize(
    ("kind", "middle", "end"),
    [("constant", 1.0, 1.0), ("inverse", 6**-0.75, 11**-0.75), ("cosine", 0.5, 0.0), ("linear", 0.5, 0.0)],
)
def test_decay_of_the_learning_rate(kind: str, middle: float, end: float) -> None:
    assert decay(kind, 0.0) == 1.0  # type: ignore[arg-type]
    assert decay(kind, 0.5) == pytest.approx(middle)  # type: ignore[arg-type]
    assert decay(kind, 1.0) == pytest.approx(end, abs=1e-12)  # type: ignore[arg-type]
