from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from residapt.models import LeNet
from residapt.streams import TwoStream
from residapt.transform import ResidualTransform, Start, VectorTransform, initialise
from residapt.transform.config import resolve_nonlinearity

nonlinearities = st.sampled_from(["tanh", "relu"])


def column_norms(transform: ResidualTransform, weight: Tensor, bias: Tensor | None) -> Tensor:
    norms = transform.core(weight).norm(dim=0)
    if transform.has_bias and bias is not None:
        norms = torch.cat([norms, transform.bias_core(bias).norm(dim=0)])
    return norms


def made(weight: Tensor, bias: Tensor | None, left: int, right: int, nonlinearity: str = "tanh") -> Start:
    transform = ResidualTransform(
        weight.shape[0],
        weight.shape[1],
        left_rank=left,
        right_rank=right,
        bias_rank=0 if bias is None else 1,
        nonlinearity=resolve_nonlinearity(nonlinearity),
    )
    return Start(transform.double(), weight, bias)


@given(
    sizes=st.lists(st.tuples(*[st.integers(1, 5)] * 4, st.booleans(), st.booleans()), min_size=1, max_size=3),
    norm=st.sampled_from([0.1, 1.0, 10.0]),
    energy=st.sampled_from([1e-4, 1.0]),
    nonlinearity=nonlinearities,
    seed=st.integers(0, 99),
)
def test_energy_and_column_norms_are_as_asked(
    sizes: list[tuple[int, int, int, int, bool, bool]], norm: float, energy: float, nonlinearity: str, seed: int
) -> None:
    """Also with zero weights, with zero biases, and with ReLU, where a core may happen to be negative throughout."""
    generator = torch.Generator().manual_seed(seed)
    starts = []
    for outputs, inputs, left, right, zero_weight, zero_bias in sizes:
        weight = torch.randn(outputs, inputs, generator=generator, dtype=torch.float64) * (not zero_weight)
        bias = torch.randn(outputs, generator=generator, dtype=torch.float64) * (not zero_bias)
        starts.append(made(weight, bias, left, right, nonlinearity))
    initialise(starts, column_norm=norm, energy=energy, generator=generator)
    total = sum(transform.residual(weight, bias).energy().item() for transform, weight, bias in starts)
    assert total == pytest.approx(energy, rel=1e-12)
    for transform, weight, bias in starts:
        norms = column_norms(transform, weight, bias)  # type: ignore[arg-type]
        torch.testing.assert_close(norms, torch.full_like(norms, norm))
        assert transform.residual(weight, bias).energy().item() > 0, "a layer without energy never learns"


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
@pytest.mark.parametrize("scale", [1.0, 0.0])
def test_the_vector_form_starts_at_the_same_scale(nonlinearity: str, scale: float) -> None:
    generator = torch.Generator().manual_seed(0)
    weight = scale * torch.randn(3, 2, generator=generator, dtype=torch.float64)
    bias = torch.zeros(3, dtype=torch.float64)
    transform = VectorTransform(3, 2, rank=4, has_bias=True, nonlinearity=resolve_nonlinearity(nonlinearity)).double()
    initialise([Start(transform, weight, bias)], column_norm=0.5, energy=1.0, generator=generator)
    inner = transform.A.T @ torch.cat([weight.reshape(-1), bias]) + transform.d
    torch.testing.assert_close(inner.abs(), torch.full((4,), 0.5, dtype=torch.float64))
    assert transform.residual(weight, bias).energy().item() == pytest.approx(1.0, rel=1e-12)
    assert bool(torch.isfinite(transform.A).all())


def test_every_layer_is_equally_perturbed_in_relative_terms() -> None:
    streams = TwoStream(LeNet(image_size=16).double())
    ratios = []
    for name, residual in streams.residuals().items():
        weight, bias = streams.source_tensors(name)
        size = weight.square().sum() + (0 if bias is None else bias.square().sum())
        ratios.append((residual.energy() / size).item())
    assert ratios == pytest.approx([ratios[0]] * 4)


def test_d_is_zero_at_the_start() -> None:
    streams = TwoStream(LeNet(image_size=16).double())
    assert all(not bool(streams.transform(name).D.any()) for name in streams.layers)


@pytest.mark.parametrize("name", ["mlp", "lenet", "resnet", "conv1d", "transformer", "tied"])
@pytest.mark.parametrize("form", ["matrix", "vector"])
def test_the_stream_loss_starts_at_its_minimum(nets: Callable[..., Any], name: str, form: str) -> None:
    rank = 8 if form == "matrix" else 2
    streams = TwoStream(nets(name).model, left_rank=rank, right_rank=rank, form=form)
    energy = streams.energy()
    assert energy is not None
    assert energy.item() == pytest.approx(1.0, rel=1e-12)


def test_the_start_depends_on_the_seed_and_on_nothing_else(nets: Callable[..., Any]) -> None:
    def factors(seed: int) -> Tensor:
        torch.rand(7)
        streams = TwoStream(nets("mlp").model, left_rank=3, right_rank=3, seed=seed)
        return nn.utils.parameters_to_vector(streams.transforms.parameters())

    assert torch.equal(factors(1), factors(1))
    assert not torch.equal(factors(1), factors(2))


def test_single_and_double_precision_start_alike(nets: Callable[..., Any]) -> None:
    double = TwoStream(nets("mlp").model, left_rank=3, right_rank=3)
    single = TwoStream(nets("mlp").model.float(), left_rank=3, right_rank=3)
    for name in double.layers:
        torch.testing.assert_close(single.transform(name).A1.double(), double.transform(name).A1, rtol=1e-5, atol=1e-6)
