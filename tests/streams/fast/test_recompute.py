from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from residapt.errors import ModelError
from residapt.streams import TwoStream
from residapt.streams.fast.recompute import find_blocks

RANKS = {"left_rank": 2, "right_rank": 2}


class Block(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.conv, self.norm, self.dropout = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), dropout

    def forward(self, x: Tensor, *, scale: float = 1.0) -> Tensor:
        return x + scale * nn.functional.dropout(torch.relu(self.norm(self.conv(x))), self.dropout, self.training)


class Deep(nn.Module):
    """Blocks with batch norm and dropout; ``how`` says whether the network itself recomputes them."""

    def __init__(self, dropout: float = 0.3, how: str = "keep") -> None:
        super().__init__()
        self.stem, self.how = nn.Conv2d(2, 4, 3, padding=1), how
        self.blocks = nn.ModuleList([Block(4, dropout) for _ in range(3)])
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = (
                block(x, scale=0.5)
                if self.how == "keep"
                else checkpoint(block, x, use_reentrant=self.how == "reentrant")
            )
        return self.head(x.mean((2, 3)))


def made(**settings: Any) -> tuple[TwoStream, Tensor, Tensor]:
    torch.manual_seed(0)
    streams = TwoStream(Deep(**settings).double(), **RANKS).train()
    return streams, torch.randn(4, 2, 5, 5, dtype=torch.float64), torch.randn(4, 2, 5, 5, dtype=torch.float64) + 1


def gradients(streams: TwoStream, source: Tensor, target: Tensor) -> dict[str, Tensor]:
    torch.manual_seed(1)
    residuals = streams.residuals()
    first, second = streams.both(source, target, residuals=residuals)
    (first.logits.square().sum() + second.logits.pow(3).sum() + streams.energy(residuals)).backward()
    return {
        name: parameter.grad.clone() for name, parameter in streams.named_parameters() if parameter.grad is not None
    }


def one_by_one(streams: TwoStream) -> TwoStream:
    """Dropout draws the same numbers only when the streams are called in the same order."""
    streams.paired = False
    return streams


def test_gradients_and_statistics_are_those_without_checkpointing() -> None:
    streams, source, target = made()
    other = copy.deepcopy(streams)
    assert other.checkpoint_blocks() == ("blocks.0", "blocks.1", "blocks.2")
    expected, found = gradients(one_by_one(streams), source, target), gradients(other, source, target)
    assert expected.keys() == found.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, msg=name)
    for (name, buffer), (_, own) in zip(streams.named_buffers(), other.named_buffers(), strict=True):
        torch.testing.assert_close(own, buffer, msg=name)
    assert int(other.statistics.named()["blocks.0.norm.num_batches_tracked"]) == 1, "the batch is counted once"


def test_activations_inside_blocks_are_not_kept() -> None:
    streams, source, target = made()
    other = copy.deepcopy(streams)
    other.checkpoint_blocks()
    assert saved_numbers(other, source, target) < 0.7 * saved_numbers(one_by_one(streams), source, target)


def saved_numbers(streams: TwoStream, source: Tensor, target: Tensor) -> int:
    total = 0

    def pack(tensor: Tensor) -> Tensor:
        nonlocal total
        total += tensor.numel() if tensor.ndim == 4 and len(tensor) == len(source) else 0
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        streams.both(source, target)
    return total


def test_nothing_stays_in_the_network() -> None:
    streams, source, target = made()
    streams.checkpoint_blocks()
    gradients(streams, source, target)
    assert all("forward" not in vars(module) for module in streams.model.modules())
    assert all(not module._forward_pre_hooks for module in streams.model.modules())
    parameters = {id(parameter) for parameter in streams.model.parameters()}
    assert {id(p) for block in streams.model.blocks for p in block.parameters()} <= parameters
    streams.eval()
    torch.testing.assert_close(streams.merge_and_unload(target).eval()(target), streams(target, stream="target"))


@pytest.mark.parametrize("how", ["reentrant", "not reentrant"])
def test_a_network_that_recomputes_by_itself_is_refused(how: str) -> None:
    streams, source, target = made(how=how)
    source.requires_grad_(True)
    with pytest.raises(ModelError, match=r"torch\.utils\.checkpoint.*'blocks\.0\.conv'.*train\.checkpointing"):
        streams.both(source, target)
    streams, _, target = made(how=how)
    with pytest.raises(ModelError, match=r"train\.checkpointing"):
        streams(target, stream="target")


def test_what_the_refusal_is_good_for() -> None:
    """Without it, blocks are computed again with the source's weights, which torch finds out much later, if at all."""
    streams, target = made(dropout=0.0, how="not reentrant")[0], made()[2]
    streams._watched = True
    loss = streams(target, stream="target").square().sum()
    with pytest.raises(torch.utils.checkpoint.CheckpointError, match="recomputation"):
        loss.backward()


def test_evaluation_does_not_recompute(nets: Callable[..., Any]) -> None:
    streams, _, target = made()
    streams.checkpoint_blocks()
    streams.eval()
    expected = copy.deepcopy(streams)
    expected.checkpointing = ()
    assert torch.equal(streams(target, stream="target"), expected(target, stream="target"))


def test_which_blocks(nets: Callable[..., Any]) -> None:
    assert find_blocks(Deep()) == ["blocks.0", "blocks.1", "blocks.2"]
    assert find_blocks(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Sequential(nn.Linear(2, 2)))) == ["0", "2"]
    with pytest.raises(ModelError, match="no sequence of blocks"):
        TwoStream(nets("tied").model, **RANKS).checkpoint_blocks()
