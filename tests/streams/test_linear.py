from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from residapt.streams import TwoStream
from residapt.streams.linear import called_modules, target_linears
from residapt.transform import Residual


def linear_two(inputs: int, outputs: int, *, bias: bool = True) -> tuple[TwoStream, nn.Linear, Residual]:
    torch.manual_seed(0)
    linear = nn.Linear(inputs, outputs, bias=bias).double()
    two = TwoStream(linear, left_rank=3, right_rank=2)
    residual = two.residuals()["model"]
    assert isinstance(residual, Residual)
    return two, linear, residual


@given(
    inputs=st.integers(1, 9), outputs=st.integers(1, 9), rows=st.integers(1, 9), bias=st.booleans(), extra=st.booleans()
)
def test_factored_and_dense_forms_are_equal(inputs: int, outputs: int, rows: int, bias: bool, extra: bool) -> None:
    """Batches on both sides of CN/(C+N) rows, where the cheaper form changes, and inputs of three dimensions."""
    two, linear, residual = linear_two(inputs, outputs, bias=bias)
    x = torch.randn(rows, *([2] if extra else []), inputs, dtype=torch.float64)
    state = two.target_state()
    expected = nn.functional.linear(x, state["weight"], state.get("bias"))
    with target_linears({linear: residual}):
        torch.testing.assert_close(linear(x), expected)


@pytest.mark.parametrize("rows", [1, 500])
def test_both_forms_are_reached(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    for name in ("apply", "add_to_weight"):
        original: Callable[..., Any] = getattr(Residual, name)
        monkeypatch.setattr(
            Residual, name, lambda self, x, name=name, original=original: used.append(name) or original(self, x)
        )
    two, linear, residual = linear_two(30, 20)
    with target_linears({linear: residual}):
        linear(torch.randn(rows, 30, dtype=torch.float64))
    assert used == (["apply"] if rows == 1 else ["add_to_weight"])


def test_the_module_is_itself_again_afterwards() -> None:
    two, linear, residual = linear_two(4, 3)
    x = torch.randn(2, 4, dtype=torch.float64)
    before = linear(x)
    with pytest.raises(KeyError), target_linears({linear: residual}):
        raise KeyError
    assert torch.equal(linear(x), before)
    assert "forward" not in vars(linear)


def test_a_forward_that_somebody_has_replaced_is_given_back() -> None:
    two, linear, residual = linear_two(4, 3)
    own = lambda x: x  # noqa: E731
    linear.forward = own  # type: ignore[method-assign]
    with target_linears({linear: residual}):
        assert linear.forward is not own
    assert linear.forward is own


def test_only_modules_that_are_called_are_reported() -> None:
    model = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})
    with called_modules({name: module for name, module in model.items()}) as called:  # type: ignore[misc]
        model["a"](torch.randn(1, 2))
    assert called == {"a"}
    assert not any(module._forward_pre_hooks for module in model.values())
