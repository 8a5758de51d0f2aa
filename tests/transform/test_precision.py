from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from residapt.data.batches import Batch
from residapt.methods import MethodConfig, build_method
from residapt.streams import TwoStream
from residapt.transform.precision import full_precision, is_autocast

RANKS = {"left_rank": 3, "right_rank": 2}


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(128, 64),
        nn.ReLU(),
        nn.Linear(64, 3),
    )


def bf16() -> torch.autocast:
    return torch.autocast("cpu", dtype=torch.bfloat16)


def test_the_context_is_for_weights_only() -> None:
    x = torch.randn(4, 4)
    with bf16():
        assert is_autocast(x)
        assert (x @ x).dtype == torch.bfloat16
        with full_precision(x):
            assert (x @ x).dtype == torch.float32
        assert (x @ x).dtype == torch.bfloat16
    assert not is_autocast(x)


@pytest.mark.parametrize("form", ["matrix", "vector"])
def test_core_residuals_and_energy_are_bit_for_bit_those_without_autocast(form: str) -> None:
    streams = TwoStream(network(), form=form, **RANKS)

    def computed() -> list[Tensor]:
        residuals = streams.residuals()
        cores = (
            [streams.transform(n).core(streams.source_tensors(n)[0]) for n in streams.layers]
            if form == "matrix"
            else []
        )
        return [*cores, *streams.target_state(residuals).values(), streams.energy(residuals)]

    plain = computed()
    with bf16():
        half = computed()
    for one, other in zip(plain, half, strict=True):
        assert other.dtype == torch.float32
        assert torch.equal(one, other)


def test_a_training_step_under_autocast_keeps_the_energy_exact_and_the_transforms_in_float32() -> None:
    """Also where a linear layer multiplies by factors, and T could come from a product of activations."""
    method = build_method(
        "rpt_fixed", network(), MethodConfig.parse({"transform": RANKS}), example=torch.zeros(2, 3, 9, 9)
    )
    batch = Batch(torch.randn(4, 3, 9, 9), torch.tensor([0, 1, 2, 0]), torch.randn(4, 3, 9, 9))
    plain = copy.deepcopy(method).losses(batch, 0.5)
    with bf16():
        losses = method.losses(batch, 0.5)
    losses.total.backward()
    assert method.streams.paired, "the factored form is what this is about"
    torch.testing.assert_close(losses.parts["stream"], plain.parts["stream"], rtol=1e-6, atol=0)
    torch.testing.assert_close(losses.parts["class"], plain.parts["class"], rtol=0.05, atol=0.02)
    for name, parameter in method.streams.transforms.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.dtype == torch.float32
        assert bool(torch.isfinite(parameter.grad).all())


def test_activations_are_in_half_precision_all_the_same() -> None:
    streams = TwoStream(network(), **RANKS).train()
    x = torch.randn(4, 3, 9, 9)
    with bf16():
        first, second = streams.both(x, x)
    assert first.logits.dtype == second.logits.dtype == torch.bfloat16
