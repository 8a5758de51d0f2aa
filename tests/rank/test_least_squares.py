from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from residapt.rank import RankConfig, shrink, solve_left, solve_right
from residapt.streams import TwoStream

sizes = st.integers(1, 6)


def draw(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def stacked_left(A1: Tensor, M: Tensor, Y: Tensor) -> Tensor:
    """min ||A1 - A1^||^2 + ||A1' M - Y||^2 as one system [I; M'] A1 = [A1^; Y']."""
    system = torch.cat([torch.eye(len(A1), dtype=A1.dtype), M.T])
    return torch.linalg.lstsq(system, torch.cat([A1, Y.T])).solution


def stacked_right(A2: Tensor, K: Tensor, Y: Tensor) -> Tensor:
    """min ||A2 - A2^||^2 + ||K A2 - Y||^2 as one system [I; K] A2 = [A2^; Y]."""
    system = torch.cat([torch.eye(len(A2), dtype=A2.dtype), K])
    return torch.linalg.lstsq(system, torch.cat([A2, Y])).solution


@given(C=sizes, left=sizes, right=sizes, scale=st.sampled_from([0.01, 1.0, 30.0]), seed=st.integers(0, 999))
def test_the_left_factor_solves_the_stacked_system(C: int, left: int, right: int, scale: float, seed: int) -> None:
    A1, M, Y = draw(C, left, seed=seed), scale * draw(C, right, seed=seed + 1), draw(left, right, seed=seed + 2)
    torch.testing.assert_close(solve_left(A1, M, Y), stacked_left(A1, M, Y), rtol=1e-9, atol=1e-9)


@given(N=sizes, left=sizes, right=sizes, scale=st.sampled_from([0.01, 1.0, 30.0]), seed=st.integers(0, 999))
def test_the_right_factor_solves_the_stacked_system(N: int, left: int, right: int, scale: float, seed: int) -> None:
    A2, K, Y = draw(N, right, seed=seed), scale * draw(left, N, seed=seed + 1), draw(left, right, seed=seed + 2)
    torch.testing.assert_close(solve_right(A2, K, Y), stacked_right(A2, K, Y), rtol=1e-9, atol=1e-9)


def test_perturbing_the_solution_never_lowers_the_objective() -> None:
    A1, M, Y = draw(4, 3, seed=0), draw(4, 2, seed=1), draw(3, 2, seed=2)

    def objective(A: Tensor) -> float:
        return float((A - A1).square().sum() + (A.T @ M - Y).square().sum())

    found = solve_left(A1, M, Y)
    best = objective(found)
    for seed in range(20):
        assert objective(found + 1e-3 * draw(4, 3, seed=seed)) > best


def test_without_columns_the_left_factor_stays() -> None:
    A1 = draw(4, 3, seed=0)
    assert torch.equal(solve_left(A1, torch.zeros(4, 0).double(), torch.zeros(3, 0).double()), A1)


@given(bias=st.booleans(), left=st.integers(1, 4), right=st.integers(1, 4), seed=st.integers(0, 99))
def test_a_proximal_step_refits_both_blocks(bias: bool, left: int, right: int, seed: int) -> None:
    """Appendix A with the block-diagonal A2, written down densely: Theta = [W b], A2 = blkdiag(A2_w, A2_b)."""
    layer = torch.nn.Linear(5, 4, bias=bias).double()
    streams = TwoStream(layer, left_rank=left, right_rank=right, seed=seed)
    transform = streams.transform("model")
    with torch.no_grad():
        for parameter in transform.parameters():
            parameter.add_(0.3 * draw(*parameter.shape, seed=seed))
    before = {name: parameter.detach().clone() for name, parameter in transform.named_parameters()}
    weight, b = streams.source_tensors("model")
    theta = weight if b is None else torch.cat([weight, b[:, None]], 1)
    A2 = before["A2"] if b is None else torch.block_diag(before["A2"], before["bias_A2"])
    D = before["D"] if b is None else torch.cat([before["D"], before["bias_D"]], 1)
    core = before["A1"].T @ theta @ A2 + D
    # Thresholds so small that nothing is pruned.
    t = 1e-4
    column, row = 2 * t * theta.shape[1] ** 0.5, 2 * t * theta.shape[0] ** 0.5
    T = core * (1 - column / core.norm(dim=0, keepdim=True))
    T = T * (1 - row / T.norm(dim=1, keepdim=True))
    expected_A1 = stacked_left(before["A1"], theta @ A2, T - D)
    K = expected_A1.T @ theta
    columns = slice(0, right)
    expected_A2 = stacked_right(before["A2"], K[:, :5], (T - D)[:, columns])
    assert shrink(streams, RankConfig(step=t)) == []
    torch.testing.assert_close(transform.A1.detach(), expected_A1.detach(), rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(transform.A2.detach(), expected_A2.detach(), rtol=1e-9, atol=1e-10)
    if bias:
        expected = stacked_right(before["bias_A2"], K[:, 5:], (T - D)[:, right:])
        torch.testing.assert_close(transform.bias_A2.detach(), expected.detach(), rtol=1e-9, atol=1e-10)
    for name in ("B1", "B2", "D"):
        assert torch.equal(transform.get_parameter(name), before[name]), "only A1 and A2 are refitted"
