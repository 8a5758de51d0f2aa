"""Each message of the health monitor comes from a run that really goes wrong in that way."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from residapt.data.domains import DomainPair, Labelled, TensorImages
from residapt.errors import TrainingError
from residapt.methods.config import DiscrepancyConfig, MethodConfig
from residapt.methods.fit import make_trainer
from residapt.rank import RankConfig
from residapt.train import Callback, GroupConfig, Method, StepInfo, TrainConfig
from residapt.train.callbacks import CallbackState
from residapt.train.config import HealthConfig
from residapt.train.health import HealthMonitor
from residapt.transform import TransformConfig

CLASSES = ("ant", "bee", "cat", "dog")
CENTRES = torch.tensor([[4.0, 0.0], [0.0, 4.0], [-4.0, 0.0], [0.0, -4.0]])
STILL = GroupConfig(lr=0.0)


def blobs(labels: Tensor, *, shift: float = 0.0, seed: int = 0) -> Tensor:
    noise = torch.randn(len(labels), 2, generator=torch.Generator().manual_seed(seed))
    return CENTRES[labels] + 0.5 * noise + shift


def pair_with(target_labels: Tensor, shift: float = 1.0) -> DomainPair:
    labels = torch.arange(256) % 4
    return DomainPair(
        Labelled(TensorImages(blobs(labels)), labels), TensorImages(blobs(target_labels, shift=shift, seed=1))
    )


def shifted(shift: float = 1.0) -> DomainPair:
    return pair_with(torch.arange(256) % 4, shift)


@pytest.fixture(scope="module")
def weights() -> dict[str, Tensor]:
    """A network that knows the source."""
    network = make_network()
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-2)
    labels = torch.arange(256) % 4
    inputs = blobs(labels)
    for _ in range(120):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(inputs), labels).backward()
        optimizer.step()
    return network.state_dict()


def make_network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 4))


def settings(**changes: Any) -> MethodConfig:
    base: dict[str, Any] = {
        "transform": TransformConfig(left_rank=4, right_rank=4),
        "rank": RankConfig(weight=0.0),
        "discrepancy": confusion(),
    }
    return MethodConfig(**{**base, **changes})


def confusion(weight: float = 1.0, gamma: float = 10.0) -> DiscrepancyConfig:
    return DiscrepancyConfig(weight=weight, gamma=gamma, hidden=(64,))


@pytest.fixture(autouse=True)
def _divergence_is_not_recovered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs here are meant to go wrong."""
    monkeypatch.setattr(TrainConfig, "recover", 0)


def training(**changes: Any) -> TrainConfig:
    return TrainConfig(**{"steps": 60, "log_every": 2, **changes})


class Notes(Callback):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def on_note(self, method: Method, step: int, note: str) -> None:
        self.texts.append(note)

    def about(self, words: str) -> list[str]:
        return [text for text in self.texts if words in text]


def run(
    weights: dict[str, Tensor],
    pair: DomainPair,
    name: str = "rpt",
    method: MethodConfig | None = None,
    train: TrainConfig | None = None,
    health: HealthConfig | None = None,
    checkpoint: Path | None = None,
) -> Notes:
    notes = Notes()
    monitor = HealthMonitor(pair.source, pair.target, CLASSES, health, checkpoint=checkpoint)
    network = make_network()
    network.load_state_dict(weights)
    trainer = make_trainer(
        name,
        network,
        pair,
        method=method or settings(),
        train=train or training(),
        callbacks=[monitor, notes],
    )
    trainer.run()
    return notes


def test_a_healthy_run_gets_no_note(weights: dict[str, Tensor]) -> None:
    assert run(weights, shifted()).texts == []
    assert run(weights, shifted(), train=training(adversary=GroupConfig(lr=1e-3))).texts == []


def test_looking_does_not_change_the_run(weights: dict[str, Tensor]) -> None:
    ends = []
    for watched in (True, False):
        pair, network = shifted(), make_network()
        network.load_state_dict(weights)
        callbacks = [HealthMonitor(pair.source, pair.target, CLASSES)] if watched else []
        train = training(steps=20)
        method = make_trainer("rpt", network, pair, method=settings(), train=train, callbacks=callbacks).run()
        assert method.training
        ends.append(method.state_dict())
    assert all(torch.equal(value, ends[1][name]) for name, value in ends[0].items())


def test_domain_classifier_that_is_not_trained(weights: dict[str, Tensor]) -> None:
    notes = run(weights, shifted(), train=training(adversary=STILL))
    (text,) = notes.about("domain classifier has collapsed")
    assert "weights have not changed" in text
    assert "train.adversary.lr" in text


def test_domain_classifier_between_equal_domains(weights: dict[str, Tensor]) -> None:
    train = training(network=STILL, adversary=GroupConfig(lr=1e-5))
    pair = shifted(0.0)
    (text,) = run(weights, pair, "dann", train=train).about("domain classifier has collapsed")
    assert "look the same" in text


def test_a_resumed_run_is_not_called_collapsed(weights: dict[str, Tensor]) -> None:
    """At the end of a good run the domain classifier guesses as well; only its start tells."""
    pair = shifted()
    network = make_network()
    network.load_state_dict(weights)
    trainer = make_trainer("dann", network, pair, method=settings(), train=training())
    monitor = HealthMonitor(pair.source, pair.target, CLASSES)
    for start, expected in ((0, 1), (500, 0)):
        monitor.on_start(trainer.method, start, 1000)
        for step in range(12):
            values = {"domain": math.log(2), "domain_accuracy": 0.5}
            monitor.on_log(trainer.method, StepInfo(start + step, 1000, values, {}))
        assert len(monitor.new_notes()) == expected


def test_domain_classifier_that_is_always_right(weights: dict[str, Tensor]) -> None:
    train = training(adversary=GroupConfig(lr=1e-2))
    notes = run(weights, shifted(60.0), method=settings(discrepancy=confusion(0.0)), train=train)
    (text,) = notes.about("the domains stay apart")
    assert "discrepancy.weight" in text


def test_target_predictions_that_collapse_and_a_barrier_that_blows_up(weights: dict[str, Tensor]) -> None:
    """A domain classifier that never answers pulls all target images the same way, and nothing holds the streams."""
    method = settings(stream_weight=0.0, train_source=False, discrepancy=confusion(10.0, gamma=0.0))
    train = training(adversary=STILL, transform=GroupConfig(lr=5e-2))
    notes = run(weights, shifted(), method=method, train=train)
    (text,) = notes.about("collapse onto few classes")
    assert "the source network used 4.0" in text
    assert any(f"'{name}'" in text for name in CLASSES)
    (text,) = notes.about("the stream loss no longer holds")
    assert "far above 1" in text
    assert "stream_weight" in text
    assert not notes.about("fell")


def test_trouble_is_told_again_when_it_gets_worse(weights: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HealthConfig, "worse", 1.1)
    method = settings(stream_weight=0.0, train_source=False, discrepancy=confusion(10.0, gamma=0.0))
    train = training(adversary=STILL, transform=GroupConfig(lr=1e-2))
    notes = run(weights, shifted(), method=method, train=train)
    first, *again = notes.about("the stream loss no longer holds")
    assert not first.startswith("worse than before")
    assert again
    assert all(text.startswith("worse than before") for text in again)


def test_frequencies_that_drift(weights: dict[str, Tensor]) -> None:
    """Confusion pulls a target with other frequencies to those of the source, and images to wrong classes."""
    skewed = torch.cat([torch.full((count,), label) for label, count in enumerate((200, 20, 20, 16))])
    rates = {"network": GroupConfig(lr=1e-2), "adversary": GroupConfig(lr=1e-2)}
    method = settings(discrepancy=confusion(10.0, gamma=0.0))
    notes = run(weights, pair_with(skewed), "dann_flip", method, training(steps=120, **rates))
    assert notes.about("class frequencies of the target drift away")
    assert "'ant' from 78%" in notes.about("drift away")[0]


def test_source_accuracy_that_falls(weights: dict[str, Tensor]) -> None:
    train = training(network=GroupConfig(lr=0.2))
    notes = run(weights, shifted(), "dann_flip", settings(discrepancy=confusion(10.0, gamma=0.0)), train)
    text = notes.about("accuracy on the source fell")[0]
    assert "from 100%" in text
    assert "train.network.lr" in text


def test_ranks_that_are_all_zero(weights: dict[str, Tensor]) -> None:
    notes = run(weights, shifted(), method=settings(rank=RankConfig(step=100.0, every=10)))
    assert len(notes.about("all ranks are zero")) == 1


@pytest.mark.parametrize("kept", [True, False])
def test_a_run_that_is_not_finite_stops_and_says_what_is_left(
    weights: dict[str, Tensor], tmp_path: Path, kept: bool
) -> None:
    place = tmp_path / "checkpoint"
    place.mkdir()
    if kept:
        (place / "state.json").write_text("{}")
    pair, notes = shifted(), Notes()
    network = make_network()
    network.load_state_dict(weights)
    trainer = make_trainer(
        "rpt",
        network,
        pair,
        method=settings(),
        train=training(optimizer="sgd", network=GroupConfig(lr=1e6)),
        callbacks=[HealthMonitor(pair.source, pair.target, CLASSES, checkpoint=place), notes],
    )
    with pytest.raises(TrainingError):
        trainer.run()
    (text,) = notes.about("training stopped")
    assert text.startswith(f"training stopped after {trainer.step} good steps of 60: ")
    assert (str(place) in text) == kept
    assert ("No checkpoint" in text) != kept


@pytest.mark.parametrize("full", [True, False])
def test_a_full_disk_is_not_blamed_on_settings(tmp_path: Path, full: bool) -> None:
    pair = shifted()
    (tmp_path / "state.json").write_text("{}")
    trainer = make_trainer("rpt", make_network(), pair, method=settings(), train=training(steps=2))
    monitor = HealthMonitor(pair.source, pair.target, CLASSES, checkpoint=tmp_path)
    monitor.on_start(trainer.method, 0, 2)
    error = TrainingError("stopped")
    error.__cause__ = OSError(28, "No space left on device") if full else None
    monitor.on_failure(trainer.method, 1, error)
    (text,) = monitor.new_notes()
    assert "--resume" in text
    assert ("settings" in text) != full


def test_the_source_network_may_come_from_outside(weights: dict[str, Tensor]) -> None:
    """A resumed run is compared with the network it began with, not with the one it was resumed from."""
    pair, network = shifted(), make_network()
    network.load_state_dict(weights)
    trainer = make_trainer("dann", network, pair, method=settings(), train=training(steps=2, network=STILL))

    def always_ant(x: Tensor) -> Tensor:
        return torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(len(x), 4)

    monitor = HealthMonitor(pair.source, pair.target, CLASSES, before=always_ant)
    monitor.on_start(trainer.method, 500, 1000)
    monitor.on_step(trainer.method, 1000)
    assert monitor.new_notes() == []
    skewed = pair_with(torch.full((256,), 1), shift=0.3)
    monitor = HealthMonitor(pair.source, skewed.target, CLASSES, before=always_ant)
    monitor.on_start(trainer.method, 500, 1000)
    monitor.on_step(trainer.method, 1000)
    assert any("'bee' went from 0% to 100%" in text for text in monitor.new_notes())
    assert monitor.new_notes() == []


def test_a_resumed_monitor_remembers_what_it_told(weights: dict[str, Tensor]) -> None:
    pair, network = shifted(), make_network()
    network.load_state_dict(weights)
    method = make_trainer("rpt", network, pair, method=settings(), train=training(steps=2)).method
    first = HealthMonitor(pair.source, pair.target, CLASSES)
    first.on_start(method, 0, 1000)
    for step in (50, 100, 150):
        first.on_log(method, StepInfo(step, 1000, {"energy": 20.0}, {}))
    assert len(first.new_notes()) == 1
    kept = first.state()
    again = HealthMonitor(pair.source, pair.target, CLASSES)
    again.on_start(method, 150, 1000)
    again.restore(method, CallbackState(json.loads(json.dumps(kept.values)), kept.tensors))
    for energy, expected in ((20.0, 0), (30.0, 0), (500.0, 1), (500.0, 0)):
        again.on_log(method, StepInfo(200, 1000, {"energy": energy}, {}))
        assert len(again.new_notes()) == expected
