from __future__ import annotations

import copy
import math
from pathlib import Path

import pytest
import torch
from residapt.data.domains import DomainPair, Labelled, TensorImages, pair_from_tensors
from residapt.errors import TrainingError
from residapt.methods.config import DiscrepancyConfig, MethodConfig
from residapt.methods.fit import make_trainer
from residapt.rank import RankConfig
from residapt.train import Callback, GroupConfig, Method, TrainConfig
from residapt.train.health import HealthConfig, HealthMonitor
from residapt.train.symptoms import (
    barrier,
    effective_classes,
    few_classes,
    lacking_classes,
    perfect_adversary,
    prior_drift,
    source_falling,
    stuck_adversary,
    total_variation,
)
from residapt.transform import TransformConfig
from torch import Tensor, nn

CLASSES = ("ant", "bee", "cat", "dog")
CENTRES = torch.tensor([[4.0, 0.0], [0.0, 4.0], [-4.0, 0.0], [0.0, -4.0]])


def blobs(labels: Tensor, *, shift: float = 0.0, seed: int = 0) -> Tensor:
    noise = torch.randn(len(labels), 2, generator=torch.Generator().manual_seed(seed))
    return CENTRES[labels] + 0.5 * noise + torch.tensor([shift, shift])


def every_class(count: int) -> Tensor:
    return torch.arange(count) % 4


def trained_network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-2)
    labels = every_class(256)
    inputs = blobs(labels)
    for _ in range(120):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(inputs), labels).backward()
        optimizer.step()
    return network


class Notes(Callback):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def on_notice(self, method: Method, step: int, notice: str) -> None:
        self.texts.append(notice)

    def about(self, words: str) -> list[str]:
        return [text for text in self.texts if words in text]


def pair_with(target: Tensor) -> DomainPair:
    labels = every_class(256)
    return pair_from_tensors(blobs(labels), labels, target)


def run(
    pair: DomainPair,
    *,
    method: str = "rpt",
    settings: MethodConfig | None = None,
    train: TrainConfig | None = None,
    health: HealthConfig | None = None,
    checkpoint: Path | None = None,
    watch: bool = True,
) -> tuple[Notes, Method]:
    notes = Notes()
    monitor = HealthMonitor(pair.source, pair.target, CLASSES, health, checkpoint=checkpoint)
    trainer = make_trainer(
        method,
        trained_network(),
        pair,
        method=settings or MethodConfig(transform=TransformConfig(left_rank=4, right_rank=4)),
        train=train or TrainConfig(steps=60, log_every=2),
        callbacks=[monitor, notes] if watch else [],
    )
    try:
        trainer.run()
    except TrainingError:
        notes.texts.append("raised")
    return notes, trainer.method


def small(**changes: object) -> MethodConfig:
    base = {"transform": TransformConfig(left_rank=4, right_rank=4), "rank": RankConfig(weight=0.0)}
    return MethodConfig(**{**base, **changes})  # type: ignore[arg-type]


def shifted_pair(shift: float = 1.0) -> DomainPair:
    return pair_with(blobs(every_class(256), shift=shift, seed=1))


def test_a_healthy_run_gets_no_note() -> None:
    notes, _ = run(shifted_pair(), settings=small())
    assert notes.texts == []


def test_looking_does_not_change_the_run() -> None:
    _, watched = run(shifted_pair(), settings=small())
    _, alone = run(shifted_pair(), settings=small(), watch=False)
    other = alone.state_dict()
    assert all(torch.equal(value, other[name]) for name, value in watched.state_dict().items())
    assert watched.training


def test_domain_classifier_that_is_not_trained() -> None:
    train = TrainConfig(steps=40, log_every=2, adversary=GroupConfig(lr=0.0))
    notes, _ = run(shifted_pair(), settings=small(), train=train)
    assert len(notes.about("domain classifier has collapsed")) == 1
    assert "train.adversary.lr" in notes.texts[0]


def test_domain_classifier_between_equal_domains() -> None:
    same = blobs(every_class(256))
    notes, _ = run(
        pair_with(same), settings=small(), train=TrainConfig(steps=24, log_every=2, network=GroupConfig(lr=0.0))
    )
    (text,) = notes.about("domain classifier has collapsed")
    assert "look the same" in text


def test_domain_classifier_that_is_always_right() -> None:
    settings = small(discrepancy=DiscrepancyConfig(weight=0.0))
    train = TrainConfig(steps=80, log_every=2, adversary=GroupConfig(lr=1e-2))
    notes, _ = run(shifted_pair(60.0), settings=settings, train=train)
    assert len(notes.about("the domains stay apart")) == 1
    assert "discrepancy.weight" in notes.about("the domains stay apart")[0]


def test_target_predictions_that_collapse() -> None:
    class Collapsing(Callback):
        """Drives the target stream's last bias, as a wrong discrepancy can."""

        def on_step(self, method: Method, step: int) -> None:
            with torch.no_grad():
                method.two.model[2].bias[1] += 1.0  # type: ignore[index, union-attr, operator]

    pair, notes = shifted_pair(), Notes()
    monitor = HealthMonitor(pair.source, pair.target, CLASSES)
    make_trainer(
        "dann",
        trained_network(),
        pair,
        method=small(),
        train=TrainConfig(steps=60, network=GroupConfig(lr=0.0)),
        callbacks=[Collapsing(), monitor, notes],
    ).run()
    assert notes.about("collapse onto few classes")
    assert "'bee'" in notes.about("collapse onto few classes")[0]
    assert notes.about("accuracy on the source fell")
