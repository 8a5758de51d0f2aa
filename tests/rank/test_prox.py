from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from residapt.rank import exact_prox, group_soft_threshold, prox_objective, split_prox, two_step_prox

Objective = Callable[[Tensor], Tensor]
shapes = st.tuples(st.integers(1, 6), st.integers(1, 6))
thresholds = st.floats(0.0, 2.0)


def draw(shape: tuple[int, int], seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def slow_norm(values: list[float]) -> float:
    return math.sqrt(sum(value * value for value in values))


def slow_two_step(core: list[list[float]], column: float, row: float) -> list[list[float]]:
    """The closed forms of method notes 2.7 by loops: columns, then rows, each with twice its threshold."""
    T = [list(line) for line in core]
    for c in range(len(T[0])):
        norm = slow_norm([line[c] for line in T])
        for line in T:
            line[c] *= max(0.0, 1 - 2 * column / norm) if norm > 0 else 0.0
    for line in T:
        norm = slow_norm(line)
        factor = max(0.0, 1 - 2 * row / norm) if norm > 0 else 0.0
        line[:] = [factor * value for value in line]
    return T


def minimise(objective: Objective, start: Tensor) -> Tensor:
    """L-BFGS from a given point, to the limits of float64."""
    T = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [T], max_iter=500, tolerance_grad=1e-12, tolerance_change=1e-16, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = objective(T)
        value.backward()
        return value

    optimizer.step(closure)  # type: ignore[arg-type]
    return T.detach()


def assert_minimum(objective: Objective, T: Tensor, *, slack: float = 0.0) -> None:
    """Perturbing never lowers the objective: along random directions, single entries, whole rows and columns."""
    generator = torch.Generator().manual_seed(1)
    best = float(objective(T))
    for size in (1.0, 1e-1, 1e-2, 1e-3, 1e-4):
        for kind in range(12):
            change = torch.randn(T.shape, generator=generator, dtype=torch.float64)
            i, j = kind % T.shape[0], kind % T.shape[1]
            mask = torch.zeros_like(T)
            mask[(slice(None), j) if kind % 4 == 1 else (i, slice(None)) if kind % 4 == 2 else (i, j)] = 1
            change = change if kind % 4 == 0 else change * mask
            change = -size * T * mask if kind % 4 == 3 and kind > 6 else size * change
            assert float(objective(T + change)) >= best - slack - 1e-12 * (1 + best)


@given(shape=shapes, column=thresholds, row=thresholds, seed=st.integers(0, 999))
def test_two_steps_are_the_closed_forms(shape: tuple[int, int], column: float, row: float, seed: int) -> None:
    core = draw(shape, seed)
    found = two_step_prox(core, column_threshold=column, row_threshold=row)
    expected = torch.tensor(slow_two_step(core.tolist(), column, row), dtype=torch.float64)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dim", [0, 1])
def test_each_of_the_two_problems_of_equation_13_is_solved(dim: int, seed: int) -> None:
    """1/4t ||T - T^||^2 + lambda w sum ||T_group||, against L-BFGS where it is smooth, and by perturbation."""
    t, lam, w = 0.1, 0.7, 3.0
    core = draw((4, 5), seed)

    def objective(T: Tensor) -> Tensor:
        return (T - core).square().sum() / (4 * t) + lam * w * T.norm(dim=dim).sum()

    T = group_soft_threshold(core, threshold=2 * t * lam * w, dim=dim)
    assert_minimum(objective, T)
    numeric = minimise(objective, core)
    assert float(objective(T)) <= float(objective(numeric)) + 1e-12
    living = (T.norm(dim=dim, keepdim=True) > 0).expand_as(T)
    assert bool(living.any())
    torch.testing.assert_close(numeric[living], T[living], atol=1e-6, rtol=1e-6)


def test_two_step_is_the_two_problems_one_after_the_other() -> None:
    t, lam, w_c, w_r = 0.05, 1.3, 2.0, 1.5
    core = draw((4, 5), 3)
    first = group_soft_threshold(core, threshold=2 * t * lam * w_c, dim=0)
    second = group_soft_threshold(first, threshold=2 * t * lam * w_r, dim=1)
    found = two_step_prox(core, column_threshold=t * lam * w_c, row_threshold=t * lam * w_r)
    assert torch.equal(found, second)


@given(
    shape=shapes, column=thresholds, row=thresholds, scale=st.sampled_from([0.1, 1.0, 10.0]), seed=st.integers(0, 999)
)
def test_exact_prox_minimises_equation_12(
    shape: tuple[int, int], column: float, row: float, scale: float, seed: int
) -> None:
    core = scale * draw(shape, seed)

    def objective(T: Tensor) -> Tensor:
        return prox_objective(T, core, column_threshold=column, row_threshold=row)

    T = exact_prox(core, column_threshold=column, row_threshold=row)
    best = float(objective(T))
    assert_minimum(objective, T, slack=1e-8 * best)
    for other in (two_step_prox, split_prox):
        assert best <= float(objective(other(core, column_threshold=column, row_threshold=row))) * (1 + 1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_exact_prox_equals_the_numeric_minimum(seed: int) -> None:
    core, column, row = draw((4, 5), seed), 0.2, 0.3

    def objective(T: Tensor) -> Tensor:
        return prox_objective(T, core, column_threshold=column, row_threshold=row)

    numeric = minimise(objective, core)
    T = exact_prox(core, column_threshold=column, row_threshold=row)
    assert float(objective(T)) <= float(objective(numeric)) * (1 + 1e-9)
    torch.testing.assert_close(numeric, T, atol=1e-4, rtol=1e-4)


def test_the_objective_is_equation_12_times_t() -> None:
    t, lam, w_c, w_r = 0.2, 0.5, 2.0, 3.0
    core, T = draw((3, 4), 0), draw((3, 4), 1)
    lines = T.tolist()
    columns = sum(slow_norm([line[c] for line in lines]) for c in range(4))
    rows = sum(slow_norm(line) for line in lines)
    distance = slow_norm((T - core).reshape(-1).tolist()) ** 2
    expected = distance / (2 * t) + lam * (w_c * columns + w_r * rows)
    found = prox_objective(T, core, column_threshold=t * lam * w_c, row_threshold=t * lam * w_r)
    assert float(found) == pytest.approx(t * expected)


def test_a_single_number_shrinks_by_the_sum_of_both_thresholds() -> None:
    """Method notes 2.7: the exact prox of a 1 x 1 core; the paper's two steps shrink twice as far."""
    core = torch.tensor([[2.0]], dtype=torch.float64)
    settings = {"column_threshold": 0.3, "row_threshold": 0.2}
    assert exact_prox(core, **settings).item() == pytest.approx(1.5, abs=1e-4)
    assert split_prox(core, **settings).item() == pytest.approx(1.5)
    assert two_step_prox(core, **settings).item() == pytest.approx(1.0)


@pytest.mark.parametrize("prox", [two_step_prox, split_prox, exact_prox])
def test_groups_that_must_vanish_are_exactly_zero(prox: Callable[..., Tensor]) -> None:
    """A faint row and a faint column among strong ones: zero to the last bit, so that pruning sees them."""
    core = torch.sign(draw((5, 6), 0)) * 3 + draw((5, 6), 1)
    core[2] *= 1e-3
    core[:, 4] *= 1e-3
    T = prox(core, column_threshold=0.1, row_threshold=0.1)
    assert [int(i) for i in (T.norm(dim=1) == 0).nonzero()] == [2]
    assert [int(i) for i in (T.norm(dim=0) == 0).nonzero()] == [4]


@pytest.mark.parametrize("prox", [two_step_prox, split_prox, exact_prox])
def test_large_thresholds_give_zero_and_none_give_the_core(prox: Callable[..., Tensor]) -> None:
    core = draw((3, 4), 0)
    assert not bool(prox(core, column_threshold=100.0, row_threshold=100.0).any())
    torch.testing.assert_close(prox(core, column_threshold=0.0, row_threshold=0.0), core)
    zeros = torch.zeros_like(core)
    assert torch.equal(prox(zeros, column_threshold=0.1, row_threshold=0.1), zeros)


@pytest.mark.parametrize("prox", [two_step_prox, split_prox, exact_prox])
def test_single_precision_is_close_to_double(prox: Callable[..., Tensor]) -> None:
    core = draw((6, 7), 2)
    double = prox(core, column_threshold=0.3, row_threshold=0.4)
    single = prox(core.float(), column_threshold=0.3, row_threshold=0.4)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), double, atol=1e-5, rtol=1e-5)


def test_the_papers_two_steps_are_close_to_the_exact_prox_at_twice_the_weight() -> None:
    """Method notes 2.7, measured there on a 4 x 5 core: close to the doubled problem, far from the printed one."""
    core = draw((4, 5), 0)
    two_step = two_step_prox(core, column_threshold=0.1, row_threshold=0.1)
    doubled = exact_prox(core, column_threshold=0.2, row_threshold=0.2)
    printed = exact_prox(core, column_threshold=0.1, row_threshold=0.1)
    assert float((two_step - doubled).norm()) < 0.1 * float((two_step - printed).norm())
