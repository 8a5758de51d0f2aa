"""What all engines promise, tried on the local one; the same cases run on Ray in test_ray_engine.py."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from residapt.errors import ConfigError, DataError, TrainingError
from residapt.parallel.engines import ATTEMPTS, make_engine
from residapt.parallel.local_engine import LocalEngine
from support.work import always_die, die_once, fail_or_work, odd_exception, square


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    with LocalEngine(2) as made:
        yield made


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_item_comes_back_with_its_result(jobs: int, engine: LocalEngine) -> None:
    workers = engine if jobs == 2 else LocalEngine(1)
    assert sorted(workers.map(square, range(1, 7))) == [(n, n * n) for n in range(1, 7)]


def test_the_next_item_is_asked_for_only_when_there_is_room(engine: LocalEngine) -> None:
    asked: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1, 6):
            asked.append(number)
            yield number

    for count, _ in enumerate(engine.map(square, items()), 1):
        assert len(asked) <= count + engine.width


def test_a_dead_worker_is_replaced_and_its_work_done_again(engine: LocalEngine, tmp_path: Path) -> None:
    told: list[str] = []
    found = list(engine.map(die_once, [tmp_path], name=lambda item: "the run", on_retry=told.append))
    assert found == [(tmp_path, "done")]
    assert told == ["the run: its process ended with signal SIGKILL. It begins again (2 of 3 attempts)."]


def test_work_that_kills_its_workers_is_given_up_by_name(engine: LocalEngine, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"the run was given up: its worker died 3 times.*SIGKILL"):
        list(engine.map(always_die, [tmp_path], name=lambda item: "the run"))
    assert (tmp_path / "attempts").read_text() == "x" * ATTEMPTS


def test_an_error_waits_for_what_is_under_way(engine: LocalEngine, tmp_path: Path) -> None:
    found = []
    with pytest.raises(DataError, match="one is odd") as caught:
        found.extend(engine.map(fail_or_work, [tmp_path / "even", tmp_path / "odd"]))
    assert found == [(tmp_path / "even", "done")]
    assert "fail_or_work" in str(caught.value.__cause__)  # where it happened in the other process


def test_an_exception_that_cannot_travel_is_told_in_words(engine: LocalEngine) -> None:
    with pytest.raises(TrainingError, match="Interrupted: stopped"):
        list(engine.map(odd_exception, [1]))


def test_closing_ends_the_workers() -> None:
    with LocalEngine(2) as made:
        assert list(made.map(os.getpgid, [0]))
        pids = [worker.process.pid for worker in made._idle]
    assert pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "slurm"}, "--engine 'slurm': use one of local, ray"),
        ({"name": "local", "address": "auto"}, "add --engine ray"),
        ({"name": "local", "jobs": 0}, "jobs must be 1 or more"),
    ],
)
def test_engines_that_there_are_not(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make_engine(**arguments)  # type: ignore[arg-type]


class _Scripted(LocalEngine):
    """Two at a time, in an order that is known: the failure comes first."""

    def submit(self, function: object, task: object) -> object:
        return task

    def wait(self, handles: Sequence[object]) -> list[object]:  # type: ignore[override]
        return [min(handles, key=lambda task: task.item)]  # type: ignore[attr-defined]

    def result(self, handle: object) -> int:  # type: ignore[override]
        if handle.item == 1:  # type: ignore[attr-defined]
            raise DataError("one is odd.")
        return int(handle.item)  # type: ignore[attr-defined]


def test_nothing_new_begins_after_an_error() -> None:
    found = []
    with pytest.raises(DataError, match="one is odd"):
        found.extend(_Scripted(2).map(square, [2, 1, 3, 4]))
    assert found == [(2, 2)]
