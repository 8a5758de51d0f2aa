"""The time allowed is kept on machines that become slower or quicker; the clock is the test's own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from residapt.config import Config
from residapt.errors import ConfigError
from residapt.run.clock import Pace, RunClock, StepCost
from residapt.run.prepare import prepare
from residapt.run.request import Request
from residapt.run.restarts import with_restarts
from residapt.run.time_limit import TimeLimit
from residapt.train import Callback, Method, Trainer
from residapt.train.checkpoint import Checkpointer, restore_checkpoint
from residapt.train.length import Length
from support.cli import invoke
from support.tiny_run import TinyNet, tiny_trainer

PLANNED, ENDING = 200, 10.0


class Machine(Callback):
    """A clock that goes on by as many seconds as a step takes; nothing else takes time."""

    def __init__(self, seconds: Callable[[int], float]) -> None:
        self.seconds, self.now, self.notes, self.lengths = seconds, 1000.0, [], []
        self.progress: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def on_step(self, method: Method, step: int) -> None:
        self.now += self.seconds(step)

    def on_note(self, method: Method, step: int, note: str) -> None:
        self.notes.append(note)

    def on_length(self, method: Method, step: int, steps: int) -> None:
        self.lengths.append(steps)

    def on_settled(self, trainer: Trainer) -> None:
        self.progress.append(trainer.length.progress(trainer.step))


@pytest.fixture
def machine() -> Iterator[Callable[[Callable[[int], float]], Machine]]:
    patches: list[Any] = []

    def build(seconds: Callable[[int], float]) -> Machine:
        made = Machine(seconds)
        for place in ("clock", "time_limit"):
            patches.append(mock.patch(f"residapt.run.{place}.time", made))
            patches[-1].start()
        return made

    yield build
    for patch in reversed(patches):  # each brings back what was there before it
        patch.stop()


def limited(
    machine: Machine, minutes: float, *, steps: int = PLANNED, wanted: int | None = None, **cost: float
) -> tuple[Trainer, RunClock]:
    """A trainer of a run that has just begun, in which steps were measured to take a second."""
    clock = RunClock(minutes, started=machine.now, pace=Pace(adapt=StepCost(**{"early": 1.0, "late": 1.0, **cost})))
    clock.wanted, clock.ending = {} if wanted == 0 else {"train": wanted or steps}, ENDING
    limit = TimeLimit("train", clock, clock.left)
    return tiny_trainer("source_only", [machine, limit], steps=steps, log_every=1000), clock


def test_a_machine_as_it_was_measured_takes_the_steps_that_were_planned(machine: Any) -> None:
    quiet = machine(lambda step: 1.0)
    trainer, clock = limited(quiet, (PLANNED + ENDING) / 60 * 1.1)
    trainer.run()
    assert (trainer.step, quiet.notes, quiet.lengths) == (PLANNED, [], [])
    assert clock.used == PLANNED


@pytest.mark.parametrize("slower", [1.5, 3.0, 6.0])
def test_a_busy_machine_ends_in_time_and_says_so_once(machine: Any, slower: float) -> None:
    busy = machine(lambda step: slower)
    trainer, clock = limited(busy, (PLANNED + ENDING) / 60)
    trainer.run()
    allowed = PLANNED + ENDING - min(slower, 8.0) * ENDING
    assert clock.used == pytest.approx(allowed, rel=0.1)
    assert trainer.step == pytest.approx(allowed / slower, rel=0.1)
    assert len(busy.notes) == 1
    assert busy.progress == sorted(busy.progress)
    assert busy.progress[-1] == pytest.approx(1.0)


def test_steps_come_back_when_the_other_program_has_ended(machine: Any) -> None:
    relieved = machine(lambda step: 4.0 if step <= 20 else 0.5)
    trainer, clock = limited(relieved, (PLANNED + ENDING) / 60)
    trainer.run()
    assert min(relieved.lengths) < 0.6 * PLANNED
    assert trainer.step == PLANNED
    assert clock.used < PLANNED


def test_more_steps_than_planned_but_never_more_than_the_data_ask_for(machine: Any) -> None:
    quick = machine(lambda step: 0.25)
    trainer, _ = limited(quick, (PLANNED + ENDING) / 60, wanted=300)
    trainer.run()
    assert trainer.step == 300


def test_steps_that_were_set_stay(machine: Any) -> None:
    busy = machine(lambda step: 50.0)
    trainer, _ = limited(busy, 1.0, steps=30, wanted=0)
    trainer.run()
    assert (trainer.step, busy.lengths) == (30, [])


def test_late_steps_that_take_longer_are_expected(machine: Any) -> None:
    two_kinds = machine(lambda step: 1.0 if step <= 100 else 3.0)
    trainer, clock = limited(two_kinds, (400 + ENDING) / 60 * 1.1, late=3.0, change=0.5)
    trainer.run()
    assert (trainer.step, clock.used) == (PLANNED, 400.0)
    assert two_kinds.lengths == []


def test_a_run_that_goes_on_has_the_time_that_was_left(machine: Any, tmp_path: Path) -> None:
    first = machine(lambda step: 2.0)
    trainer, clock = limited(first, (PLANNED + ENDING) / 60)
    trainer.callbacks.items.append(Checkpointer(tmp_path, every=0))
    first.seconds = lambda step: 2.0 if step < 50 else trainer.request_stop() or 2.0
    with pytest.raises(Exception, match="stopped"):
        trainer.run()
    used, length = clock.used, trainer.length
    second = machine(lambda step: 1.0)
    second.now = 7.0  # another process, another clock
    again, late = limited(second, (PLANNED + ENDING) / 60, wanted=0)
    restore_checkpoint(again, tmp_path)
    assert again.length == length
    assert length.steps < PLANNED
    again.run()
    assert late.used == pytest.approx(used + again.step - 50)
    assert late.used <= 1.1 * (PLANNED + ENDING)
    assert again.step > length.steps, "the machine is quicker now"


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 300)), max_size=5), st.integers(1, 300))
@settings(max_examples=50, deadline=None)
def test_progress_goes_from_0_to_1_whatever_becomes_of_the_steps(changes: list[tuple[int, int]], steps: int) -> None:
    length, step, found = Length(steps), 0, []
    for wait, new in changes:
        until = min(step + wait, length.steps)
        found += [length.progress(each) for each in range(step, until)]
        step = until
        length = length.changed(step, new)
    found += [length.progress(each) for each in range(step, length.steps + 1)]
    assert all(a <= b + 1e-12 for a, b in pairwise(found))
    assert found[0] == 0.0
    assert found[-1] == pytest.approx(1.0) or length.steps == length.since


def test_proximal_steps_shrink_as_much_in_all_however_many_there_are() -> None:
    trainer = tiny_trainer("rpt", steps=100)
    trainer.step = 40
    trainer.change_steps(60)
    assert trainer.method.speed == pytest.approx(3.0)  # the last 60 steps became 20
    trainer.set_length(Length(100))
    assert trainer.method.speed == 1.0


def request(**values: Any) -> Request:
    images, labels = torch.randn(24, 1, 8, 8), torch.arange(24) % 3
    config = Config.parse({"minutes": 60, "train": {"steps": 2}, **values.pop("config", {})})
    return Request(config=config, model=TinyNet(), source=(images, labels), target=images, **values)


def test_what_came_before_the_run_was_prepared_belongs_to_the_time_allowed() -> None:
    assert prepare(request(started=time.monotonic() - 500.0)).clock.used >= 500.0
    assert prepare(request()).clock.used < 400.0


def test_the_command_line_counts_from_its_beginning(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Request] = []

    def run(asked: Request) -> None:
        seen.append(asked)
        raise ConfigError("that is all")

    monkeypatch.setattr("residapt.run.api.run_request", run)
    monkeypatch.setattr("residapt.run.run_request", run, raising=False)
    before = time.monotonic()
    invoke("adapt", "-s", str(digits / "printed"), "-t", str(digits / "written"), "-o", str(tmp_path / "run"))
    (asked,) = seen
    assert asked.started is not None
    assert before <= asked.started <= time.monotonic()


def test_only_the_first_restart_began_with_the_command() -> None:
    began: list[float | None] = []

    def go(asked: Request, ready: Callable[[], None]) -> Any:
        began.append(asked.started)
        if len(began) == 2:
            raise ConfigError("that is all")
        return mock.MagicMock()

    with pytest.raises(ConfigError):
        with_restarts(request(started=5.0, config={"restarts": 2}), go)
    assert began == [5.0, None]
