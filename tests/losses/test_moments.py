from __future__ import annotations

import math
import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from residapt.errors import ConfigError, DataError
from residapt.losses.moments import (
    DAN_FACTORS,
    DSN_BANDWIDTHS,
    coral,
    gaussian_mmd,
    linear_mmd,
    median_bandwidths,
    rbf_mmd,
)


def sample(rows: int, columns: int, seed: int, shift: float = 0.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=generator, dtype=torch.float64) + shift


def squared(u: list[float], v: list[float]) -> float:
    return sum((a - b) ** 2 for a, b in zip(u, v, strict=True))


def slow_mmd(source: Tensor, target: Tensor, sigmas: tuple[float, ...]) -> float:
    """All n^2, m^2 and nm pairs, the diagonal included."""

    def mean_kernel(xs: list[list[float]], ys: list[list[float]]) -> float:
        total = 0.0
        for x in xs:
            for y in ys:
                total += sum(math.exp(-squared(x, y) / (2 * sigma)) for sigma in sigmas)
        return total / (len(xs) * len(ys))

    s, t = source.tolist(), target.tolist()
    return mean_kernel(s, s) + mean_kernel(t, t) - 2 * mean_kernel(s, t)


def slow_covariance(x: list[list[float]]) -> list[list[float]]:
    n, d = len(x), len(x[0])
    mean = [sum(row[j] for row in x) / n for j in range(d)]
    return [[sum((row[i] - mean[i]) * (row[j] - mean[j]) for row in x) / (n - 1) for j in range(d)] for i in range(d)]


def test_linear_mmd_is_the_squared_distance_of_the_means() -> None:
    source = torch.tensor([[0.0, 2.0], [2.0, 4.0]])
    target = torch.tensor([[4.0, 3.0], [4.0, 3.0], [4.0, 3.0]])
    assert linear_mmd(source, target).item() == pytest.approx(9.0)


def test_gaussian_mmd_equals_the_loop_over_pairs() -> None:
    source, target = sample(5, 3, 0), sample(7, 3, 1, shift=0.5)
    expected = slow_mmd(source, target, DSN_BANDWIDTHS)
    assert gaussian_mmd(source, target).item() == pytest.approx(expected, rel=1e-12)
    assert gaussian_mmd(source, target, (0.5,)).item() == pytest.approx(slow_mmd(source, target, (0.5,)))


def test_dsn_uses_nineteen_bandwidths() -> None:
    assert len(DSN_BANDWIDTHS) == 19
    assert sorted(DSN_BANDWIDTHS) == list(DSN_BANDWIDTHS)
    assert DSN_BANDWIDTHS[0] == 1e-6
    assert DSN_BANDWIDTHS[-1] == 1e6


def test_the_gaussian_kernel_uses_the_squared_distance() -> None:
    """One point each at distance 2: 2 - 2 k(2). A kernel of the plain distance would give e^-1 and e^-2."""
    source, target = torch.zeros(1, 1), torch.full((1, 1), 2.0)
    assert gaussian_mmd(source, target, (1.0,)).item() == pytest.approx(2 - 2 * math.exp(-2))
    assert rbf_mmd(source, target).item() == pytest.approx(2 - 2 * math.exp(-4))
    assert rbf_mmd(source, target, sigma=8.0).item() == pytest.approx(2 - 2 * math.exp(-0.5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_mmd_of_equal_samples_is_exactly_zero(dtype: torch.dtype) -> None:
    # Far from the origin, |u|^2 + |v|^2 - 2uv would lose the diagonal against a bandwidth of 1e-6.
    z = sample(16, 8, 2, shift=100.0).to(dtype)
    assert gaussian_mmd(z, z).item() == 0.0
    assert rbf_mmd(z, z).item() == 0.0
    assert linear_mmd(z, z).item() == 0.0
    assert gaussian_mmd(z, z.flip(0)).item() < 1e-5


@given(seed=st.integers(0, 10_000), n=st.integers(1, 6), m=st.integers(1, 6), shift=st.floats(-3, 3))
def test_mmd_is_symmetric_and_never_negative(seed: int, n: int, m: int, shift: float) -> None:
    source, target = sample(n, 2, seed).float(), sample(m, 2, seed + 1, shift).float()
    value = gaussian_mmd(source, target)
    assert value >= 0
    assert value.item() == pytest.approx(gaussian_mmd(target, source).item(), abs=1e-5)
    assert value.item() == pytest.approx(slow_mmd(source, target, DSN_BANDWIDTHS), abs=1e-4)


def test_mmd_gradients_are_right_and_finite_at_coinciding_points() -> None:
    source, target = sample(3, 2, 3).requires_grad_(), sample(4, 2, 4)
    assert torch.autograd.gradcheck(lambda s: gaussian_mmd(s, target, (0.5, 2.0)), (source,))
    assert torch.autograd.gradcheck(lambda s: rbf_mmd(s, target), (source,))
    same = torch.ones(3, 2, requires_grad=True)
    gaussian_mmd(same, torch.ones(2, 2)).backward()
    assert same.grad is not None
    assert same.grad.isfinite().all()


def test_median_bandwidths_are_half_the_scaled_median_of_the_squared_distances() -> None:
    source, target = sample(4, 3, 5).requires_grad_(), sample(3, 3, 6)
    rows = torch.cat([source.detach(), target]).tolist()
    pairs = [squared(rows[i], rows[j]) for i in range(len(rows)) for j in range(i)]
    median = statistics.median_low(pairs)
    result = median_bandwidths(source, target)
    assert not result.requires_grad
    assert result.tolist() == pytest.approx([f * median / 2 for f in DAN_FACTORS])
    # At the median distance, DAN's middle kernel is exp(-1).
    assert math.exp(-median / (2 * result[2].item())) == pytest.approx(math.exp(-1))


def test_mmd_with_median_bandwidths_does_not_depend_on_the_scale_of_the_features() -> None:
    source, target = sample(6, 3, 7), sample(6, 3, 8, shift=1.0)
    small = gaussian_mmd(source, target, median_bandwidths(source, target))
    large = gaussian_mmd(50 * source, 50 * target, median_bandwidths(50 * source, 50 * target))
    assert small.item() == pytest.approx(large.item(), rel=1e-10)


def test_median_bandwidths_of_coinciding_points_are_usable() -> None:
    ones = torch.ones(3, 2)
    assert gaussian_mmd(ones, ones, median_bandwidths(ones, ones)).item() == 0.0


def test_coral_equals_the_loop() -> None:
    source, target = sample(6, 3, 9), 2 * sample(8, 3, 10)
    cs, ct = slow_covariance(source.tolist()), slow_covariance(target.tolist())
    expected = sum((cs[i][j] - ct[i][j]) ** 2 for i in range(3) for j in range(3)) / (4 * 3 * 3)
    assert coral(source, target).item() == pytest.approx(expected, rel=1e-12)


@given(shift=st.floats(-100, 100))
def test_coral_is_blind_to_the_mean(shift: float) -> None:
    x = sample(32, 5, 11)
    assert coral(x, x + shift) < 1e-18
    assert coral(x, 1.5 * x + shift) > 1e-3


def test_coral_of_one_feature_is_a_quarter_of_the_squared_variance_difference() -> None:
    source = torch.tensor([[0.0], [2.0]])
    target = torch.tensor([[0.0], [4.0]])
    assert coral(source, target).item() == pytest.approx((2.0 - 8.0) ** 2 / 4)


@pytest.mark.parametrize("loss", [linear_mmd, gaussian_mmd, rbf_mmd, coral])
def test_half_precision_is_computed_in_single(loss) -> None:  # type: ignore[no-untyped-def]
    source, target = sample(4, 3, 12).bfloat16(), sample(4, 3, 13).bfloat16()
    assert loss(source, target).dtype == torch.float32


@pytest.mark.parametrize("loss", [linear_mmd, gaussian_mmd, rbf_mmd, coral, median_bandwidths])
@pytest.mark.parametrize("shapes", [((4, 1), (4, 3)), ((4,), (4,)), ((4, 2, 2), (4, 2, 2)), ((0, 3), (4, 3))])
def test_shapes_that_would_broadcast_are_refused(loss, shapes) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError):
        loss(torch.zeros(shapes[0]), torch.zeros(shapes[1]))


def test_bad_settings_are_refused() -> None:
    x = torch.zeros(2, 2)
    with pytest.raises(ConfigError):
        rbf_mmd(x, x, sigma=0)
    with pytest.raises(ConfigError):
        gaussian_mmd(x, x, (1.0, -1.0))
    with pytest.raises(ConfigError):
        gaussian_mmd(x, x, ())
    with pytest.raises(DataError, match=r"\b2\b"):
        coral(x[:1], x)
