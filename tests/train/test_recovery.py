"""A training that diverges goes back to its last good state, exactly, and on from there with gentler settings."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from residapt.errors import TrainingError
from residapt.methods.config import AverageConfig, PriorConfig
from residapt.rank import RankConfig
from residapt.train import Callback, Losses, Method, TrainConfig, Trainer
from residapt.train.callbacks import RecoveryInfo
from residapt.train.checkpoint import restore_checkpoint, save_checkpoint
from residapt.train.divergence import GRADIENT
from residapt.train.metrics import MetricsFile
from residapt.train.recovery import EVERY
from residapt.train.state import method_tensors, optimizer_state
from support.tiny_run import tiny_trainer

STEPS = 4 * EVERY
PARTS = {"prior": {"kind": "estimated"}, "average": {"decay": 0.9, "start": 0.0}}


@pytest.fixture(autouse=True)
def _the_average_moves_in_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AverageConfig, "every", 1)
    monkeypatch.setattr(PriorConfig, "every", 3)


class Story(Callback):
    """What was told, and the settings after every step."""

    def __init__(self) -> None:
        self.infos: list[tuple[int, RecoveryInfo]] = []
        self.notes: list[tuple[int, str]] = []
        self.steps: list[int] = []

    def on_recovery(self, method: Method, step: int, info: RecoveryInfo) -> None:
        self.infos.append((step, info))

    def on_note(self, method: Method, step: int, note: str) -> None:
        self.notes.append((step, note))

    def on_step(self, method: Method, step: int) -> None:
        self.steps.append(step)


def trainer(*callbacks: Callback, at: tuple[int, ...] = (), value: float = math.nan, **train: Any) -> Trainer:
    """A training whose total loss is ``value`` at the given steps (counted from 1)."""
    rank = RankConfig(every=20, step=3e-2)
    settings = {"steps": STEPS, "log_every": 10, "clip": None, **train}
    made = tiny_trainer("rpt", callbacks, rank=rank, parts=PARTS, **settings)
    spoil(made, at, value)
    return made


def spoil(made: Trainer, at: tuple[int, ...], value: float) -> None:
    real = made.method.losses

    def losses(*arguments: Any) -> Losses:
        found = real(*arguments)
        if made.step + 1 not in at:
            return found
        return Losses(found.total * value, {**found.parts, "class": found.parts["class"] * value}, found.watch)

    made.method.losses = losses  # type: ignore[method-assign]


def snapshot(made: Trainer) -> dict[str, Tensor]:
    moments, _ = optimizer_state(made.method, made.optimizer)
    tensors = {**method_tensors(made.method), **{f"moment {name}": tensor for name, tensor in moments.items()}}
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(tensor, second[name]) for name, tensor in first.items())


def run_to(made: Trainer, step: int) -> None:
    while made.step < step:
        made._one_step()


def test_the_state_that_is_brought_back_is_the_earlier_one_bit_for_bit() -> None:
    """Pruned shapes, moments, averages and the running counts of the prior among it."""
    made = trainer(at=(2 * EVERY + 5,))
    run_to(made, EVERY)
    good = snapshot(made)
    ranks = made.method.streams.ranks()
    run_to(made, 2 * EVERY + 4)
    assert made.method.streams.ranks() != ranks, "ranks must have fallen for this test to mean anything"
    made._one_step()
    assert made.step == 2 * EVERY + 5
    assert same(snapshot(made), good)
    assert made.method.streams.ranks() == ranks


def test_settings_are_gentler_from_then_on() -> None:
    story = Story()
    made = trainer(story, at=(EVERY + 5, EVERY + 25))
    real = made.method.discrepancy_weight
    rates = {group["name"]: group["lr"] for group in made.optimizer.param_groups}
    run_to(made, EVERY + 4)
    weight = real(0.5)
    for times in (1, 2):
        run_to(made, EVERY + 5 + 20 * (times - 1) + 1)
        assert made.recovery.factor == 0.5**times
        assert real(0.5) == weight * 0.5**times
        progress = (made.step - 1) / STEPS
        decay = 0.5 * (1 + math.cos(math.pi * progress))
        for group in made.optimizer.param_groups:
            assert group["lr"] == pytest.approx(rates[group["name"]] * decay * 0.5**times)
        assert made.recovery.clip is not None
    (first, second) = (info for _, info in story.infos)
    assert first.clip is not None
    assert second.clip == pytest.approx(0.5 * first.clip)


def test_a_limit_on_gradients_that_was_set_is_halved() -> None:
    made = trainer(at=(3,), clip=5.0)
    run_to(made, 4)
    assert made.recovery.clip == 2.5


def test_what_is_told() -> None:
    story = Story()
    trainer(story, at=(2 * EVERY + 5,)).run()
    ((step, info),) = story.infos
    assert (step, info.back_to, info.stopped, info.rate_factor) == (2 * EVERY + 5, EVERY, False, 0.5)
    assert math.isnan(info.value)
    ((_, note),) = [note for note in story.notes if "diverged" in note[1]]
    for words in (f"step {step}", f"step {EVERY}", "nan", "0.5"):
        assert words in note
    assert story.steps == list(range(1, STEPS + 1)), "every step is counted once"


def test_metrics_hold_a_line_for_each_time(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    trainer(MetricsFile(file), at=(7, 9), value=math.inf).run()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    found = [line for line in lines if line["kind"] == "recovery"]
    assert [(line["step"], line["back_to"], line["value"]) for line in found] == [(7, 0, None), (9, 0, None)]
    assert [line["rate_factor"] for line in found] == [0.5, 0.25]
    assert not any(line["kind"] == "step" and not math.isfinite(line["values"]["total"]) for line in lines)


def test_after_enough_attempts_training_ends_at_the_last_good_state() -> None:
    story = Story()
    at = tuple(2 * EVERY + place for place in (5, 6, 7, 8))
    made = trainer(story, at=at)
    run_to(made, EVERY)
    good = snapshot(made)
    made.run()
    assert [info.stopped for _, info in story.infos] == [False, False, False, True]
    assert same(snapshot(made), good)
    assert made.step == STEPS
    assert story.steps[-1] == STEPS


def test_without_a_good_state_but_the_start_what_is_not_finite_is_an_error() -> None:
    with pytest.raises(TrainingError) as caught:
        trainer(at=(3, 4, 5, 6)).run()
    for words in ("step 6 of", "after 3 attempts", "nan"):
        assert words in str(caught.value)


def test_turned_off_nothing_is_kept_and_the_first_nan_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TrainConfig, "recover", 0)
    made = trainer(at=(5,))
    with pytest.raises(TrainingError, match="step 5 of"):
        made.run()
    assert made.recovery.snapshots == []


def test_gradients_that_are_not_finite_change_nothing() -> None:
    made = trainer()
    run_to(made, 3)
    before = snapshot(made)
    made.method.streams.model.full.weight.register_hook(lambda gradient: gradient * math.nan)
    norm = None
    real = made.engine.update

    def update(*arguments: Any) -> float | None:
        nonlocal norm
        norm = real(*arguments)
        assert {name for name, tensor in snapshot(made).items() if not torch.equal(tensor, before[name])} <= BUFFERS
        return norm

    made.engine.update = update  # type: ignore[method-assign]
    made._one_step()
    assert norm is not None
    assert math.isnan(norm)
    assert made.recovery.count == 1


BUFFERS = {name for name, _ in tiny_trainer("rpt", parts=PARTS).method.named_buffers()}


def test_looking_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training that does not diverge ends in the same weights, watched or not."""
    ends = []
    for recover in (0, 3):
        monkeypatch.setattr(TrainConfig, "recover", recover)
        made = trainer()
        made.run()
        ends.append(snapshot(made))
    assert same(*ends)


@pytest.mark.parametrize("stop", [1, EVERY, EVERY + 5, 2 * EVERY + 4, 2 * EVERY + 5, 2 * EVERY + 30])
def test_a_resumed_run_recovers_as_one_that_was_not_stopped(stop: int, tmp_path: Path) -> None:
    at = (EVERY + 5, 2 * EVERY + 5)
    whole = trainer(at=at)
    whole.run()
    stopped = trainer(at=at)
    run_to(stopped, stop)
    save_checkpoint(stopped, tmp_path)
    resumed = trainer(at=at)
    restore_checkpoint(resumed, tmp_path)
    resumed.run()
    assert resumed.recovery.count == whole.recovery.count == 2
    assert resumed.recovery.clip == whole.recovery.clip
    assert same(snapshot(resumed), snapshot(whole))
    assert resumed.recovery.detector.state() == whole.recovery.detector.state()


def test_a_domain_classifier_that_is_outrun_is_noticed_within_fifty_steps(
    pairs: Callable[..., Any],
) -> None:
    """Gradient reversal at a rate that the domain classifier cannot follow, on a network that knows its classes."""
    story = Story()
    made = tiny_trainer(
        "dann",
        [story],
        steps=400,
        clip=None,
        decay="constant",
        parts={"discrepancy": {"weight": 30.0, "gamma": 0.0, "dropout": 0.0}},
        network={"lr": 2e-2},
        adversary={"lr": 1e-4},
    )
    history: list[dict[str, float]] = []
    real = made.recovery.detector.check

    def check(values: dict[str, float]) -> Any:
        history.append(dict(values))
        return real(values)

    made.recovery.detector.check = check  # type: ignore[method-assign]
    made.run()
    assert story.infos
    step, info = story.infos[0]
    assert info.sign in ("class", "domain", GRADIENT)
    rows = list(enumerate(history[:step], start=1))
    low = min(row["class"] for _, row in rows)
    high = [n for n, row in rows if row["domain"] > 2 * math.log(2) or row["class"] > low + math.log(4)]
    assert step - high[0] <= 50


def test_a_copy_is_not_changed_by_the_training_that_goes_on() -> None:
    made = trainer()
    run_to(made, 1)
    kept = copy.deepcopy(made.recovery.snapshots[0].tensors)
    run_to(made, 20)
    assert all(torch.equal(tensor, kept[name]) for name, tensor in made.recovery.snapshots[0].tensors.items())
