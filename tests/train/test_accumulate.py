from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from residapt.data.batches import Batch
from residapt.errors import ConfigError, ModelError
from residapt.methods import MethodConfig, build_method
from residapt.train import TrainConfig, Trainer
from residapt.train.accumulate import split_batch

ADDITIVE = ("source_only", "dann", "dann_flip", "confusion", "rpt", "rpt_fixed", "fine_tune")


def trained(
    nets: Callable[..., Any], pairs: Callable[..., Any], name: str, accumulate: int, net: str = "mlp"
) -> Trainer:
    model, x = nets(net)
    config = MethodConfig.parse({"transform": {"left_rank": 2, "right_rank": 2}, "rank": {"every": 2}})
    method = build_method(name, model, config, example=x)
    settings = TrainConfig(steps=3, batch_size=6, accumulate=accumulate, optimizer="sgd", clip=1.0, log_every=1)
    trainer = Trainer(method, pairs(tuple(x.shape[1:]), few=6 if name == "fine_tune" else 0), settings)
    trainer.run()
    return trainer


def state(trainer: Trainer) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in trainer.method.state_dict().items()}


@pytest.mark.parametrize("accumulate", [2, 3])
@pytest.mark.parametrize("name", ADDITIVE)
def test_losses_that_are_means_give_the_same_step(
    nets: Callable[..., Any], pairs: Callable[..., Any], name: str, accumulate: int
) -> None:
    whole, parts = (state(trained(nets, pairs, name, count)) for count in (1, accumulate))
    for key, tensor in whole.items():
        torch.testing.assert_close(parts[key], tensor, rtol=1e-9, atol=1e-12, msg=key)


@pytest.mark.parametrize("name", ["mmd", "coral"])
def test_losses_that_compare_samples_do_not(nets: Callable[..., Any], pairs: Callable[..., Any], name: str) -> None:
    """So that the documentation stays true: these see one part at a time."""
    whole, parts = (state(trained(nets, pairs, name, count)) for count in (1, 2))
    assert any(not torch.allclose(parts[key], whole[key], rtol=1e-9, atol=1e-12) for key in whole)


def test_batch_norm_sees_one_part_at_a_time(nets: Callable[..., Any], pairs: Callable[..., Any]) -> None:
    whole, parts = (trained(nets, pairs, "rpt", count, "resnet") for count in (1, 2))
    counts = [int(t.method.streams.model.bn1.num_batches_tracked) for t in (whole, parts)]
    assert counts == [3, 6]


def test_a_batch_that_cannot_be_divided_is_refused_before_training(
    nets: Callable[..., Any], pairs: Callable[..., Any]
) -> None:
    with pytest.raises(ConfigError, match=r"train\.accumulate = 4.*\b6\b.*'source'"):
        trained(nets, pairs, "dann_flip", 4)


def test_parts_are_the_batch_in_order() -> None:
    batch = Batch(torch.arange(6.0), torch.arange(6), -torch.arange(6.0))
    parts = split_batch(batch, 3)
    assert torch.equal(torch.cat([part.source for part in parts]), batch.source)
    assert torch.equal(torch.cat([part.labels for part in parts]), batch.labels)
    assert [part.few for part in parts] == [None] * 3
    assert split_batch(batch, 1)[0] is batch


def test_checkpointing_by_configuration_changes_no_result(nets: Callable[..., Any], pairs: Callable[..., Any]) -> None:
    results = []
    for checkpointing in (False, True):
        model, x = nets("conv1d")
        config = MethodConfig.parse({"transform": {"left_rank": 2, "right_rank": 2}})
        method = build_method("rpt", model, config, example=x)
        settings = TrainConfig(steps=2, batch_size=4, checkpointing=checkpointing)
        trainer = Trainer(method, pairs(tuple(x.shape[1:])), settings)
        assert bool(method.streams.checkpointing) is checkpointing
        trainer.run()
        results.append(state(trainer))
    for key, tensor in results[0].items():
        torch.testing.assert_close(results[1][key], tensor, rtol=1e-9, atol=1e-12, msg=key)


def test_checkpointing_a_network_without_blocks_is_refused(nets: Callable[..., Any], pairs: Callable[..., Any]) -> None:
    model, x = nets("tied")
    method = build_method("rpt", model, MethodConfig(), example=x)
    with pytest.raises(ModelError, match="no sequence of blocks"):
        Trainer(method, pairs(tuple(x.shape[1:])), TrainConfig(steps=1, checkpointing=True))
