from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from residapt.transform import ResidualTransform

widths = st.integers(0, 4)


def random_transform(
    outputs: int, inputs: int, left: int, right: int, bias_rank: int | None = None, seed: int = 0
) -> tuple[ResidualTransform, Tensor, Tensor]:
    """A transform with all factors drawn, and weights and biases of a layer."""
    generator = torch.Generator().manual_seed(seed)
    transform = ResidualTransform(
        outputs, inputs, left_rank=left, right_rank=right, bias_rank=bias_rank or 0, has_bias=bias_rank is not None
    ).double()
    with torch.no_grad():
        for parameter in transform.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    weight = torch.randn(outputs, inputs, generator=generator, dtype=torch.float64)
    bias = torch.randn(outputs, generator=generator, dtype=torch.float64)
    return transform, weight, bias


def slow_product(*matrices: Tensor) -> Tensor:
    """A chain of matrix products by three nested loops."""
    result = matrices[0]
    for matrix in matrices[1:]:
        rows, inner, columns = result.shape[0], result.shape[1], matrix.shape[1]
        made = torch.zeros(rows, columns, dtype=torch.float64)
        for i in range(rows):
            for j in range(columns):
                made[i, j] = sum((result[i, k] * matrix[k, j] for k in range(inner)), torch.zeros(()).double())
        result = made
    return result


def slow_target(transform: ResidualTransform, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Eq. 2 for the two blocks, as printed."""
    t = {name: parameter.detach() for name, parameter in transform.named_parameters()}
    core = torch.tanh(slow_product(t["A1"].T, weight, t["A2"]) + t["D"])
    target = weight + slow_product(t["B1"], core, t["B2"].T)
    if not transform.has_bias:
        return target, bias
    bias_core = torch.tanh(slow_product(t["A1"].T, bias[:, None], t["bias_A2"]) + t["bias_D"])
    return target, bias + slow_product(t["B1"], bias_core, t["bias_B2"].T).squeeze(1)


@given(
    outputs=st.integers(1, 5),
    inputs=st.integers(1, 5),
    left=widths,
    right=widths,
    bias_rank=st.none() | st.integers(0, 2),
    seed=st.integers(0, 99),
)
def test_target_weights_are_those_of_equation_2(
    outputs: int, inputs: int, left: int, right: int, bias_rank: int | None, seed: int
) -> None:
    transform, weight, bias = random_transform(outputs, inputs, left, right, bias_rank, seed)
    target, target_bias = transform(weight, bias)
    expected, expected_bias = slow_target(transform, weight, bias)
    torch.testing.assert_close(target, expected)
    torch.testing.assert_close(target_bias, expected_bias)


@given(left=widths, right=widths, bias_rank=st.none() | st.integers(0, 2), seed=st.integers(0, 99))
def test_energy_is_the_squared_norm_of_the_residual(left: int, right: int, bias_rank: int | None, seed: int) -> None:
    transform, weight, bias = random_transform(4, 3, left, right, bias_rank, seed)
    target, target_bias = transform(weight, bias)
    expected = (target - weight).square().sum() + (target_bias - bias).square().sum()
    torch.testing.assert_close(transform.residual(weight, bias).energy(), expected)


@given(left=widths, right=widths, rows=st.integers(1, 4), seed=st.integers(0, 99))
def test_the_factored_product_equals_the_dense_one(left: int, right: int, rows: int, seed: int) -> None:
    transform, weight, bias = random_transform(5, 3, left, right, 1, seed)
    residual = transform.residual(weight, bias)
    x = torch.randn(rows, 3, dtype=torch.float64)
    torch.testing.assert_close(residual.apply(x), x @ residual.weight().T)
    torch.testing.assert_close(residual.add_to_weight(weight), weight + residual.weight())


def test_rank_zero_is_the_identity_to_the_last_bit() -> None:
    transform, weight, bias = random_transform(4, 3, 0, 0, 0)
    target, target_bias = transform(weight, bias)
    assert torch.equal(target, weight)
    assert torch.equal(target_bias, bias)
    assert not transform.alive


def test_blocks_do_not_mix() -> None:
    """Block-diagonal A2, B2: weights are combinations of weights, biases of biases."""
    transform, weight, bias = random_transform(4, 3, 2, 2, 1)
    target, target_bias = transform(weight, bias)
    other_target, other_bias = transform(weight, bias + 1.0)
    assert torch.equal(other_target, target)
    assert not torch.equal(other_bias - bias - 1.0, target_bias - bias)
    other_target, other_bias = transform(weight + 1.0, bias)
    assert torch.equal(other_bias, target_bias)
    assert not torch.equal(other_target - weight - 1.0, target - weight)


@pytest.mark.parametrize(("block", "name"), [("rows", "A1"), ("columns", "A2"), ("bias", "bias_A2")])
def test_a_zero_row_or_column_of_the_core_changes_nothing(block: str, name: str) -> None:
    """Why sigma(0) must be 0: with T's row or column at zero, the same row or column of B is without effect."""
    transform, weight, bias = random_transform(4, 3, 3, 3, 2)
    with torch.no_grad():
        transform.get_parameter(name)[:, 1] = 0
        if block == "rows":
            transform.D[1] = 0
            transform.bias_D[1] = 0
        else:
            transform.get_parameter("D" if block == "columns" else "bias_D")[:, 1] = 0
    other = copy.deepcopy(transform)
    with torch.no_grad():
        other.get_parameter(name.replace("A", "B"))[:, 1] += 7.0
    for before, after in zip(transform(weight, bias), other(weight, bias), strict=True):
        assert torch.equal(before, after)


def test_gradients_of_all_factors_are_right() -> None:
    transform, weight, bias = random_transform(3, 2, 2, 2, 1)
    names = [name for name, _ in transform.named_parameters()]

    def target(weight: Tensor, bias: Tensor, *values: Tensor) -> tuple[Tensor, Tensor]:
        out, out_bias = torch.func.functional_call(transform, dict(zip(names, values, strict=True)), (weight, bias))
        return out, out_bias

    inputs = [weight.requires_grad_(), bias.requires_grad_(), *transform.parameters()]
    assert torch.autograd.gradcheck(target, inputs)


@pytest.mark.parametrize(("left", "right"), [(2, 5), (5, 2), (3, 0), (0, 3), (1, 1)])
def test_ranks_are_widths_and_may_exceed_the_layer(left: int, right: int) -> None:
    transform, weight, bias = random_transform(1, 2, left, right, None)
    assert transform.ranks == (left, right)
    assert transform.alive == (left > 0 and right > 0)
    assert transform.residual(weight, bias).weight().shape == (1, 2)


def test_a_bias_column_alone_keeps_the_layer_alive() -> None:
    transform, weight, bias = random_transform(4, 3, 2, 0, 1)
    target, target_bias = transform(weight, bias)
    assert transform.alive
    assert torch.equal(target, weight)
    assert not torch.allclose(target_bias, bias)
