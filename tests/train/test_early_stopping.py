"""Early stopping, the classifier's own learning rate, and event files."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn

from residapt.data.domains import DomainPair, Labelled, TensorImages
from residapt.methods import MethodConfig, build_method
from residapt.train import TrainConfig, Trainer
from residapt.train.callbacks import Callback
from residapt.train.early_stopping import EarlyStopping, HeldOut, check_held_out, run_with_early_stopping
from residapt.train.method import Method
from residapt.train.optimiser import HEAD, build_optimizer, set_learning_rates
from residapt.train.tensorboard import TensorBoard

LABELS = torch.arange(40) % 2


def data(seed: int = 0) -> Labelled:
    generator = torch.Generator().manual_seed(seed)
    x = (2.0 * LABELS - 1)[:, None] * torch.tensor([1.0, 0.5, 0.0]) + torch.randn(40, 3, generator=generator)
    return Labelled(TensorImages(x), LABELS)


def trainer(lr: float = 1e-2, steps: int = 40, callbacks: tuple[Callback, ...] = ()) -> Trainer:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    method = build_method("source_only", network, MethodConfig(), example=torch.zeros(2, 3))
    train = TrainConfig.parse({"steps": steps, "batch_size": 10, "network": {"lr": lr}, "log_every": 5})
    source = data()
    return Trainer(method, DomainPair(source, source.images), train, callbacks=callbacks)


class Ended(Callback):
    def __init__(self) -> None:
        self.at: list[int] = []

    def on_end(self, method: Method, step: int) -> None:
        self.at.append(step)


def test_the_best_weights_come_back() -> None:
    """A learning rate that grows the loss for ever: what is handed out is as good as the best look."""
    ended = Ended()
    running = trainer(lr=3.0, steps=60, callbacks=(ended,))
    stopping = EarlyStopping(data(1), every=4, patience=3)
    best = run_with_early_stopping(running, stopping)
    assert best == max(stopping.checks, key=lambda check: check.key)
    again = EarlyStopping(data(1), every=1, patience=1)
    again.on_start(running.method, best.step, 0)
    assert again.checks[0] == best
    waited = [check for check in stopping.checks if check.step > best.step]
    assert len(waited) == 3
    assert running.step == waited[-1].step < 60
    assert ended.at == [running.step]  # listeners are told, also when it stops early


def test_training_that_gains_to_the_end_is_not_stopped() -> None:
    running = trainer(lr=1e-3, steps=30)
    stopping = EarlyStopping(data(0), every=10, patience=1)
    best = run_with_early_stopping(running, stopping)
    assert running.step == 30
    assert [check.step for check in stopping.checks] == [0, 10, 20, 30]
    assert best.step == 30


def test_training_never_makes_a_network_worse_on_held_out_images() -> None:
    running = trainer(lr=50.0, steps=8)
    first = EarlyStopping(data(1), every=2, patience=9)
    best = run_with_early_stopping(running, first)
    assert best.key >= first.checks[0].key


def test_with_balance_a_network_that_finds_nothing_is_no_good() -> None:
    """Three positives among 27: always saying no is right on 90 %, and on half of the classes."""
    generator = torch.Generator().manual_seed(4)
    labels = torch.tensor([1] * 3 + [0] * 27)
    images = torch.randn(30, 3, generator=generator)
    held_out = Labelled(TensorImages(images), labels)
    running = trainer(lr=1e-3, steps=1)
    last = running.method.streams.model[-1]
    with torch.no_grad():
        last.weight.zero_()
        last.bias.copy_(torch.tensor([3.0, -3.0]))
    assert check_held_out(running.method, held_out).accuracy == pytest.approx(90.0)
    found = check_held_out(running.method, held_out, balance="classes")
    assert found.accuracy == pytest.approx(50.0)
    no, yes = math.log(1 + math.exp(-6)), math.log(1 + math.exp(6))
    assert found.loss == pytest.approx((no + yes) / 2, rel=1e-5), "each class counts the same"


def test_equal_accuracies_are_told_apart_by_the_loss() -> None:
    assert HeldOut(1, 99.0, 0.2).key > HeldOut(2, 99.0, 0.3).key
    assert HeldOut(1, 99.0, 0.9).key > HeldOut(2, 98.0, 0.1).key


def groups(network: nn.Module) -> dict[str, list[nn.Parameter]]:
    return {"network": list(network.parameters()), "transform": [], "adversary": [nn.Parameter(torch.zeros(1))]}


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_the_classifier_learns_at_its_own_rate(optimizer: str) -> None:
    network = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    config = TrainConfig.parse(
        {
            "optimizer": optimizer,
            "head": 10.0,
            "weight_decay": 0.1,
            "network": {"lr": 1e-3},
            "adversary": {"lr": 7e-3},
            "decay": "linear",
        }
    )
    built = build_optimizer(groups(network), config, network)
    by_name = {group["name"]: group for group in built.param_groups}
    assert set(by_name) == {"network", HEAD, "adversary"}
    assert [p.shape for p in by_name[HEAD]["params"]] == [(2, 4), (2,)]
    assert by_name[HEAD]["weight_decay"] == 0.1
    set_learning_rates(built, config, progress=0.25)
    rates = {name: group["lr"] for name, group in by_name.items()}
    assert rates == pytest.approx({"network": 0.75e-3, HEAD: 0.75e-2, "adversary": 0.75 * 7e-3})


def test_without_a_factor_there_is_no_such_group() -> None:
    network = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    built = build_optimizer(groups(network), TrainConfig(), network)
    assert [group["name"] for group in built.param_groups] == ["network", "adversary"]


def test_event_files_hold_losses_and_ranks(tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    board = TensorBoard(tmp_path, "adapt")
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    method = build_method("rpt", network, MethodConfig(), example=torch.zeros(2, 3))
    source = data()
    train = TrainConfig(steps=4, batch_size=10, log_every=2)
    Trainer(method, DomainPair(source, source.images), train, callbacks=[board]).run()
    found = events.EventAccumulator(str(tmp_path / "adapt"))
    found.Reload()
    tags = found.Tags()["scalars"]
    assert {"adapt/class", "adapt/confusion", "adapt/stream", "adapt/total", "ranks_left/0", "ranks_right/2"} <= set(
        tags
    )
    assert [event.step for event in found.Scalars("adapt/total")] == [2, 4]
    assert found.Scalars("ranks_left/0")[0].value == 32
