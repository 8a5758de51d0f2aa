from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from residapt.errors import ConfigError, DataError
from residapt.losses.multilinear import RandomMultilinear, entropy_weights, multilinear


def test_the_random_map_equals_the_loop() -> None:
    module = RandomMultilinear(4, 3, dim=5, generator=torch.Generator().manual_seed(0)).double()
    f, g = torch.randn(2, 4, dtype=torch.float64), torch.randn(2, 3, dtype=torch.float64)
    R_f, R_g = module.R_f.tolist(), module.R_g.tolist()
    out = module(f, g).tolist()
    for n in range(2):
        for k in range(5):
            left = sum(R_f[k][i] * f[n, i].item() for i in range(4))
            right = sum(R_g[k][j] * g[n, j].item() for j in range(3))
            assert out[n][k] == pytest.approx(left * right / math.sqrt(5))


def test_the_random_map_keeps_inner_products_on_average() -> None:
    generator = torch.Generator().manual_seed(1)
    module = RandomMultilinear(6, 3, dim=200_000, generator=generator)
    f, g = torch.randn(2, 6, generator=generator), torch.randn(2, 3, generator=generator)
    out, full = module(f, g), multilinear(f, g)
    torch.testing.assert_close(out @ out.T, full @ full.T, rtol=0.05, atol=0.1)


def test_the_matrices_are_saved_and_not_trained() -> None:
    first, second = RandomMultilinear(4, 3, dim=8), RandomMultilinear(4, 3, dim=8)
    assert not list(first.parameters())
    assert set(first.state_dict()) == {"R_f", "R_g"}
    f, g = torch.randn(5, 4), torch.randn(5, 3)
    assert not torch.equal(first(f, g), second(f, g))
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(f, g), second(f, g))


def test_a_generator_makes_the_draw_repeatable_and_leaves_the_global_one_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    first = RandomMultilinear(4, 3, generator=torch.Generator().manual_seed(5))
    assert torch.equal(torch.rand(1), expected)
    assert torch.equal(first.R_f, RandomMultilinear(4, 3, generator=torch.Generator().manual_seed(5)).R_f)


def test_the_full_map_is_the_outer_product() -> None:
    f, g = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0, 6.0, 7.0], [0.0, 1.0, 0.0]])
    expected = [[5.0, 6.0, 7.0, 10.0, 12.0, 14.0], [0.0, 3.0, 0.0, 0.0, 4.0, 0.0]]
    assert multilinear(f, g).tolist() == expected


def test_gradients_reach_features_and_predictions() -> None:
    module = RandomMultilinear(3, 2, dim=4).double()
    f = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    g = torch.randn(2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(module, (f, g))
    assert torch.autograd.gradcheck(multilinear, (f, g))


@given(seed=st.integers(0, 10_000), rows=st.integers(1, 6), scale=st.floats(0, 200))
def test_entropy_weights_equal_the_loop_and_have_mean_one(seed: int, rows: int, scale: float) -> None:
    logits = torch.randn(rows, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale
    p = logits.softmax(dim=1).requires_grad_()
    weights = entropy_weights(p)
    raw = [1 + math.exp(sum(v * math.log(v) for v in row if v > 0)) for row in p.tolist()]
    assert weights.tolist() == pytest.approx([w * rows / sum(raw) for w in raw])
    assert weights.mean().item() == pytest.approx(1.0)
    assert not weights.requires_grad


def test_sure_samples_weigh_more() -> None:
    weights = entropy_weights(torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
    assert (weights[0] / weights[1]).item() == pytest.approx(2 / 1.5)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError):
        RandomMultilinear(0, 3)
    with pytest.raises(DataError):
        multilinear(torch.zeros(1, 2), torch.zeros(3, 2))
    with pytest.raises(DataError):
        RandomMultilinear(2, 2)(torch.zeros(1, 2), torch.zeros(3, 2))
