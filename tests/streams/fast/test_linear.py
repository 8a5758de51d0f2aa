from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from residapt.streams import TwoStream
from residapt.streams.fast.linear import FactoredWeight
from residapt.streams.fast.rebuilt import WeightRecipe
from residapt.transform import LayerMatrix, Residual, ResidualTransform


def factored(inputs: int, outputs: int, *, bias: bool = True) -> tuple[TwoStream, FactoredWeight, Residual]:
    torch.manual_seed(0)
    linear = nn.Linear(inputs, outputs, bias=bias).double()
    streams = TwoStream(linear, left_rank=3, right_rank=2)
    residual = streams.residuals()["model"]
    assert isinstance(residual, Residual)
    return streams, FactoredWeight(WeightRecipe(streams.layers["model"], linear.weight, residual)), residual


def gradients(streams: TwoStream, loss: Tensor) -> dict[str, Tensor]:
    streams.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in streams.named_parameters() if p.grad is not None}


@given(
    inputs=st.integers(1, 9), outputs=st.integers(1, 9), rows=st.integers(1, 9), bias=st.booleans(), extra=st.booleans()
)
def test_factored_and_dense_forms_are_equal(inputs: int, outputs: int, rows: int, bias: bool, extra: bool) -> None:
    """Batches on both sides of CN/(C+N) rows, where the cheaper form changes, and inputs of three dimensions."""
    streams, weight, residual = factored(inputs, outputs, bias=bias)
    x = torch.randn(rows, *([2] if extra else []), inputs, dtype=torch.float64)
    shift = streams.model.bias if bias else None
    found = functional.linear(x, weight, shift)
    mine = gradients(streams, found.square().sum() + residual.energy())
    fresh = streams.residuals()
    dense = functional.linear(x, streams.target_state(fresh)["weight"], shift)
    torch.testing.assert_close(found, dense)
    energy = streams.energy(fresh)
    assert energy is not None
    theirs = gradients(streams, dense.square().sum() + energy)
    assert mine.keys() == theirs.keys()
    for name, gradient in mine.items():
        torch.testing.assert_close(gradient, theirs[name])


@pytest.mark.parametrize(("rows", "form"), [(1, "factored"), (500, "dense")])
def test_both_forms_are_reached(rows: int, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, weight, _ = factored(30, 20)
    formed, dense = [], WeightRecipe.dense
    monkeypatch.setattr(WeightRecipe, "dense", lambda recipe: formed.append(recipe) or dense(recipe))
    functional.linear(torch.randn(rows, 30, dtype=torch.float64), weight)
    assert len(formed) == (form == "dense")


def test_source_rows_get_the_source_weight() -> None:
    for rows in (1, 500):
        streams, weight, _ = factored(30, 20)
        source, target = (torch.randn(rows, 30, dtype=torch.float64) for _ in range(2))
        bias = torch.randn(20, dtype=torch.float64)
        found = weight.linear((source, target), (bias, None))
        torch.testing.assert_close(found[0], functional.linear(source, streams.model.weight, bias))
        torch.testing.assert_close(found[1], functional.linear(target, streams.target_state()["weight"]))


def test_anything_but_linear_sees_a_dense_tensor() -> None:
    """Networks read, slice and transpose weights; each of these must see the target's."""
    streams, weight, _ = factored(4, 3)
    expected = streams.target_state()["weight"]
    torch.testing.assert_close(weight + 0, expected)
    torch.testing.assert_close(weight.T, expected.T)
    torch.testing.assert_close(weight[1:], expected[1:])
    torch.testing.assert_close(torch.cat([weight, weight]), torch.cat([expected, expected]))
    torch.testing.assert_close(weight.norm(), expected.norm())
    x = torch.randn(2, 4, dtype=torch.float64)
    torch.testing.assert_close(x @ weight.t(), x @ expected.t())
    torch.testing.assert_close(functional.linear(weight, x), functional.linear(expected, x))
    assert weight.shape == (3, 4)
    assert weight.size(1) == 4
    assert weight.dtype == torch.float64


def test_a_dense_use_is_differentiated_through_the_factors() -> None:
    streams, weight, _ = factored(4, 3)
    mine = gradients(streams, (weight * 2).square().sum())
    theirs = gradients(streams, (streams.target_state()["weight"] * 2).square().sum())
    assert {"model.weight", "transforms.model.A1", "transforms.model.B2", "transforms.model.D"} <= set(mine)
    for name, gradient in mine.items():
        torch.testing.assert_close(gradient, theirs[name])


@pytest.mark.parametrize("rows", [2, 40])
@pytest.mark.parametrize("frozen", [True, False])
def test_both_forms_give_the_same_gradients_with_a_frozen_source(rows: int, frozen: bool) -> None:
    torch.manual_seed(0)
    streams = TwoStream(
        nn.Sequential(nn.Linear(12, 10), nn.Tanh(), nn.Linear(10, 3)).double(), left_rank=2, right_rank=3
    )
    streams.model.requires_grad_(not frozen)
    x = torch.randn(rows, 12, dtype=torch.float64, requires_grad=True)
    found = []
    for cheaper in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(FactoredWeight, "_dense_is_cheaper", lambda self, rows, cheaper=cheaper: cheaper)
            streams.train()
            loss = streams(x, stream="target").square().sum()
        wanted = [p for p in streams.parameters() if p.requires_grad]
        found.append(torch.autograd.grad(loss, [x, *wanted], allow_unused=True))
    for dense, factored in zip(*found, strict=True):
        assert (dense is None) == (factored is None)
        if dense is not None:
            torch.testing.assert_close(factored, dense)


def test_the_cheaper_form_by_multiplications() -> None:
    """ViT-S: with a frozen source factors are cheaper in spite of many rows; otherwise the dense form is."""
    weight = nn.Parameter(torch.empty(384, 384))
    transform = ResidualTransform(384, 384, left_rank=32, right_rank=32)
    choose = {}
    for frozen in (True, False):
        weight.requires_grad_(not frozen)
        layer = LayerMatrix("layer", "layer.weight", None, "linear")
        made = FactoredWeight(WeightRecipe(layer, weight, transform.residual(weight)))
        choose[frozen] = [made._dense_is_cheaper(rows) for rows in (16, 100, 1576)]
    assert choose == {True: [False, False, False], False: [False, False, True]}
