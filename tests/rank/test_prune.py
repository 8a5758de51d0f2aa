from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.optim import Optimizer

from residapt.rank import prune_transform, replace_parameter
from residapt.streams import TwoStream
from residapt.transform import ResidualTransform

FACTORS = ("A1", "A2", "B1", "B2", "D", "bias_A2", "bias_B2", "bias_D")


def mask(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.bool)


def zero_groups(transform: ResidualTransform, rows: Tensor, columns: Tensor, bias_columns: Tensor) -> None:
    """Make the rows and columns of T that are not kept exactly zero, whatever the weights are."""
    with torch.no_grad():
        transform.A1[:, ~rows] = 0
        transform.A2[:, ~columns] = 0
        transform.bias_A2[:, ~bias_columns] = 0
        transform.D[~rows] = 0
        transform.D[:, ~columns] = 0
        transform.bias_D[~rows] = 0
        transform.bias_D[:, ~bias_columns] = 0


def linear_two(left: int = 4, right: int = 3, bias_rank: int = 2) -> TwoStream:
    torch.manual_seed(0)
    streams = TwoStream(nn.Linear(5, 6).double(), left_rank=left, right_rank=right, bias_rank=bias_rank)
    with torch.no_grad():
        for parameter in streams.transforms.parameters():
            parameter.add_(torch.randn_like(parameter))
    return streams


@given(
    rows=st.lists(st.booleans(), min_size=4, max_size=4),
    columns=st.lists(st.booleans(), min_size=3, max_size=3),
    bias_columns=st.lists(st.booleans(), min_size=2, max_size=2),
)
def test_removing_zero_rows_and_columns_changes_nothing(
    rows: list[bool], columns: list[bool], bias_columns: list[bool]
) -> None:
    """Any subset, also none and all: target weights, biases and energy stay."""
    streams = linear_two()
    transform = streams.transform("model")
    keep = mask(*rows), mask(*columns), mask(*bias_columns)
    zero_groups(transform, *keep)
    before, energy = streams.target_state(), streams.energy()
    prune_transform(transform, *keep, None)
    after, left = streams.target_state(), streams.energy()
    assert energy is not None
    for name, tensor in streams.model.named_parameters():
        torch.testing.assert_close(after.get(name, tensor), before[name])
    torch.testing.assert_close(energy, torch.zeros_like(energy) if left is None else left)
    if transform.alive:
        assert transform.ranks == (sum(rows), sum(columns))
        assert transform.bias_rank == sum(bias_columns)
    else:
        assert all(parameter.numel() == 0 for parameter in transform.parameters())


def test_without_rows_or_without_columns_the_layer_is_shared() -> None:
    for keep in ((mask(0, 0, 0, 0), mask(1, 1, 1), mask(1, 1)), (mask(1, 1, 1, 1), mask(0, 0, 0), mask(0, 0))):
        streams = linear_two()
        prune_transform(streams.transform("model"), *keep, None)
        assert streams.ranks() == {"model": (0, 0)}
        assert streams.transform("model").bias_rank == 0
        assert streams.energy() is None


def step(streams: TwoStream, optimizer: Optimizer, seed: int) -> None:
    x = torch.randn(7, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    optimizer.zero_grad()
    (1e-3 * streams(x, stream="target").square().sum()).backward()
    optimizer.step()


def optimizers(streams: TwoStream) -> dict[str, Callable[[], Optimizer]]:
    groups = [
        {"params": list(streams.model.parameters()), "lr": 1e-3},
        {"params": list(streams.transforms.parameters()), "lr": 1e-2},
    ]
    return {
        "adam": lambda: torch.optim.Adam(groups),
        "adam_fused": lambda: torch.optim.Adam(groups, fused=True),
        "amsgrad": lambda: torch.optim.AdamW(groups, amsgrad=True),
        "sgd": lambda: torch.optim.SGD(groups, momentum=0.9),
        "sgd_plain": lambda: torch.optim.SGD(groups, lr=1e-3),
        "rmsprop": lambda: torch.optim.RMSprop(groups, momentum=0.9),
        "adadelta": lambda: torch.optim.Adadelta(groups),
    }


def selected(name: str, tensor: Tensor, rows: Tensor, columns: Tensor, bias_columns: Tensor) -> Tensor:
    if name in ("A1", "B1"):
        return tensor[:, rows]
    kept = bias_columns if name.startswith("bias") else columns
    return tensor[rows][:, kept] if name.endswith("D") else tensor[:, kept]


@pytest.mark.parametrize("kind", ["adam", "adam_fused", "amsgrad", "sgd", "sgd_plain", "rmsprop", "adadelta"])
def test_the_optimisers_state_of_what_is_kept_stays_and_is_used(kind: str) -> None:
    """Moments of kept entries are bit-identical, step counts stay, nothing of the old parameters stays behind."""
    streams = linear_two()
    transform = streams.transform("model")
    optimizer = optimizers(streams)[kind]()
    for seed in range(3):
        step(streams, optimizer, seed)
    keep = mask(1, 0, 1, 1), mask(0, 1, 1), mask(1, 0)
    old = {name: transform.get_parameter(name) for name in FACTORS}
    before = {name: dict(optimizer.state[parameter]) for name, parameter in old.items()}
    values = {name: parameter.detach().clone() for name, parameter in old.items()}
    prune_transform(transform, *keep, optimizer)
    for name in FACTORS:
        new = transform.get_parameter(name)
        assert torch.equal(new, selected(name, values[name], *keep))
        assert optimizer.state[new].keys() == before[name].keys()
        for key, value in before[name].items():
            wanted = value
            if isinstance(value, Tensor) and value.shape == values[name].shape:
                wanted = selected(name, value, *keep)
            found = optimizer.state[new][key]
            assert torch.equal(found, wanted) if isinstance(wanted, Tensor) else found == wanted
    listed = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    assert {id(parameter) for parameter in listed} == {id(parameter) for parameter in streams.parameters()}
    assert not any(parameter in optimizer.state for parameter in old.values())
    before_step = {name: transform.get_parameter(name).detach().clone() for name in FACTORS}
    step(streams, optimizer, 3)
    for name in FACTORS:
        assert not torch.equal(transform.get_parameter(name), before_step[name]), name


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_training_after_a_prune_equals_training_with_zeroed_groups(kind: str) -> None:
    """The strongest form: prune, or keep the same rows and columns at zero by hand; both go the same way."""
    keep = mask(1, 0, 1, 1), mask(0, 1, 1), mask(1, 0)
    pruned, masked = linear_two(), linear_two()
    made = {id(streams): optimizers(streams)[kind]() for streams in (pruned, masked)}
    for streams in (pruned, masked):
        for seed in range(2):
            step(streams, made[id(streams)], seed)
        zero_groups(streams.transform("model"), *keep)
    prune_transform(pruned.transform("model"), *keep, made[id(pruned)])
    for seed in range(2, 5):
        for streams in (pruned, masked):
            step(streams, made[id(streams)], seed)
        zero_groups(masked.transform("model"), *keep)
    for name in FACTORS:
        expected = selected(name, masked.transform("model").get_parameter(name).detach(), *keep)
        torch.testing.assert_close(pruned.transform("model").get_parameter(name).detach(), expected)


def test_a_frozen_parameter_stays_frozen() -> None:
    module = nn.Linear(3, 2)
    module.weight.requires_grad_(False)
    replace_parameter(module, "weight", lambda t: t[:, 1:], None)
    assert module.weight.shape == (2, 2)
    assert not module.weight.requires_grad


def test_the_optimiser_keeps_the_order_of_its_parameters() -> None:
    streams = linear_two()
    optimizer = torch.optim.Adam(list(streams.parameters()))
    names: list[Any] = [name for name, _ in streams.named_parameters()]
    prune_transform(streams.transform("model"), mask(1, 0, 1, 1), mask(0, 1, 1), mask(1, 1), optimizer)
    current = {id(parameter): name for name, parameter in streams.named_parameters()}
    assert [current[id(parameter)] for parameter in optimizer.param_groups[0]["params"]] == names
