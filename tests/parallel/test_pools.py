"""What all pools promise: the same cases for processes of this machine and for a Ray cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from residapt.errors import ConfigError, DataError, TrainingError
from residapt.parallel import Pool, make_engine, ray_pool
from residapt.parallel.local_pool import LocalPool
from residapt.parallel.pool import ATTEMPTS
from residapt.parallel.ray_pool import RayPool
from support import work

RAY = pytest.param("ray", marks=[pytest.mark.slow, pytest.mark.dist, pytest.mark.timeout(600)])
MANY_THREADS = {"OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "3"}
"""The environment that workers start in: one thread must be their own doing."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A Ray cluster with two processors, whose workers find the modules of these tests."""
    ray = pytest.importorskip("ray", reason="needs the extra ray")
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    variables = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **MANY_THREADS}
    ray.init(
        address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": variables}
    )
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module", params=["local", RAY])
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    if request.param == "ray":
        request.getfixturevalue("cluster")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in MANY_THREADS.items():
            patch.setenv(name, value)
        with make_engine(request.param, jobs=2) as made:
            yield made


def is_running(pid: int) -> bool:
    """Whether a process exists that is more than an entry for its parent to collect."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_every_item_comes_back_with_its_result(pool: Pool) -> None:
    assert sorted(pool.map(work.square, range(7))) == [(n, n * n) for n in range(7)]


def test_the_next_item_is_asked_for_only_when_there_is_room(pool: Pool) -> None:
    asked: list[int] = []

    def items() -> Iterator[int]:
        for number in range(5):
            asked.append(number)
            yield number

    for count, _ in enumerate(pool.map(work.square, items())):
        assert len(asked) <= count + pool.width


def test_only_what_a_dead_worker_was_doing_is_repeated(pool: Pool, tmp_path: Path) -> None:
    messages: list[str] = []
    items = [tmp_path / name for name in ("victim", "neighbour", "third", "fourth")]
    found = dict(pool.map(work.die_once_beside_another, items, name=lambda item: item.name, on_retry=messages.append))
    assert {item.name: number for item, number in found.items()} == {
        "victim": 2,
        "neighbour": 1,
        "third": 1,
        "fourth": 1,
    }
    assert [message.partition(":")[0] for message in messages] == ["victim"]


def test_an_item_that_kills_its_workers_is_given_up_by_name(pool: Pool, tmp_path: Path) -> None:
    item = tmp_path / "attempts"
    with pytest.raises(TrainingError, match="the-run"):
        list(pool.map(work.always_die, [item], name=lambda item: "the-run"))
    assert work.attempts(item) == ATTEMPTS


def test_an_error_waits_for_what_is_running_and_says_where_it_was_raised(pool: Pool, tmp_path: Path) -> None:
    found = []
    with pytest.raises(DataError, match=r"^one is odd\.$") as caught:
        found.extend(pool.map(work.fail_or_work, [tmp_path / "even", tmp_path / "odd"]))
    assert found == [(tmp_path / "even", "done")]
    assert "fail_or_work" in str(caught.value.__cause__)


def test_an_exception_that_pickle_cannot_build_again_is_not_a_dead_worker(pool: Pool) -> None:
    messages: list[str] = []
    with pytest.raises(TrainingError, match="Interrupted"):
        list(pool.map(work.raise_what_pickle_cannot_build, [1], on_retry=messages.append))
    assert not messages


def test_workers_have_one_torch_thread(pool: Pool) -> None:
    assert list(pool.map(work.torch_threads, [0])) == [(0, 1)]


def test_one_job_runs_in_this_process() -> None:
    with make_engine("local") as alone:
        assert dict(alone.map(lambda number: (number, os.getpid()), range(2))) == {n: (n, os.getpid()) for n in (0, 1)}


def test_closing_ends_idle_and_busy_workers(tmp_path: Path) -> None:
    with LocalPool(2) as pool:
        _, idle = next(pool.map(work.sleep_or_not, [tmp_path / "quick", tmp_path / "sleeper"]))
        work.wait_until((tmp_path / "sleeper").exists)
        busy = int((tmp_path / "sleeper").read_text())
        assert is_running(idle)
        assert is_running(busy)
    assert not is_running(idle)
    assert not is_running(busy)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_process_that_started_them(number: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C goes to all processes of a terminal; kill -9 to the first only."""
    process = subprocess.Popen(
        [sys.executable, "-m", "support.work", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    work.wait_until(lambda: (tmp_path / "ready").exists() and (tmp_path / "sleeper").exists())
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    assert process.wait(timeout=60) != 0
    for name in ("ready", "sleeper"):
        pid = int((tmp_path / name).read_text())
        work.wait_until(lambda pid=pid: not is_running(pid))


class Never(Pool):
    """One call at a time, which does not end."""

    width = 1  # type: ignore[assignment]

    def submit(self, function: Callable[[Any], Any], item: Any, name: str) -> Future[Any]:
        return Future()

    def error_of(self, error: BaseException) -> BaseException:
        return error

    def close(self) -> None:
        pass


@pytest.mark.timeout(60)
def test_ctrl_c_that_does_not_wake_the_waiting_thread_is_noticed() -> None:
    """It may come after Python's last look for signals and before the wait begins. Here another thread receives it."""
    sender = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    sender.start()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with pytest.raises(KeyboardInterrupt):
            list(Never().map(abs, [1]))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        sender.join()


class AtOnce(Pool):
    """Two at a time in this process, all done as soon as they are started."""

    width = 2  # type: ignore[assignment]

    def submit(self, function: Callable[[Any], Any], item: Any, name: str) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(item))
        except DataError as error:
            future.set_exception(error)
        return future

    def error_of(self, error: BaseException) -> BaseException:
        return error

    def close(self) -> None:
        pass


def test_nothing_new_is_started_after_an_error() -> None:
    begun, found = [], []

    def odd_fails(number: int) -> int:
        begun.append(number)
        if number == 1:
            raise DataError("one is odd.")
        return number

    with pytest.raises(DataError):
        found.extend(AtOnce().map(odd_fails, [2, 1, 3, 4]))
    assert begun == [2, 1]
    assert found == [(2, 2)]


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ({"name": "slurm"}, "slurm"),
        ({"name": "local", "address": "head:6379"}, "head:6379"),
        ({"name": "local", "jobs": 0}, "0"),
    ],
)
def test_what_no_pool_can_be_made_of(arguments: dict[str, Any], value: str) -> None:
    with pytest.raises(ConfigError, match=value):
        make_engine(**arguments)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"residapt\[ray\]"):
        make_engine("ray")


def test_no_cluster_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    class Absent:
        @staticmethod
        def is_initialized() -> bool:
            return False

        @staticmethod
        def init(**_options: object) -> None:
            raise ConnectionError("Could not find any running Ray instance.\nMore words.")

    monkeypatch.setattr(ray_pool, "require_ray", lambda: Absent)
    with pytest.raises(ConfigError, match=r"head:6379.*Could not find any running Ray instance\.") as caught:
        RayPool(address="head:6379").__enter__()
    assert "More words" not in str(caught.value)
