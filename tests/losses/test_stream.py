from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from residapt.losses.stream import stream_loss


@given(value=st.floats(1e-6, 1e6))
def test_the_barrier_is_equation_7(value: float) -> None:
    assert stream_loss(torch.tensor(value, dtype=torch.float64)).item() == pytest.approx(value - math.log(value))


@given(value=st.floats(1e-6, 1e6))
def test_one_is_the_minimum(value: float) -> None:
    assert stream_loss(torch.tensor(value, dtype=torch.float64)).item() >= 1.0 - 1e-12


@pytest.mark.parametrize(("value", "slope"), [(1.0, 0.0), (1e-6, 1 - 1e6), (2.0, 0.5)])
def test_slope(value: float, slope: float) -> None:
    energy = torch.tensor(value, dtype=torch.float64, requires_grad=True)
    stream_loss(energy).backward()
    assert energy.grad is not None
    assert energy.grad.item() == pytest.approx(slope)
