"""Grids on a real Ray cluster of this machine: the same records as without it, whoever dies on the way."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from residapt_bench.digits.grid import name_of, run_grid
from residapt_bench.resumable import read_records

from bench_support.small_digits import small_digits, small_plans
from residapt.errors import DataError
from residapt.parallel.local_pool import LocalPool
from residapt.parallel.ray_pool import RayPool
from support.cli import invoke

pytestmark = [pytest.mark.slow, pytest.mark.dist, pytest.mark.timeout(900)]
TIMED = ("seconds", "peak_memory_mb", "environment")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster with two workers, whose modules are found as those of this process are."""
    ray = pytest.importorskip("ray", reason="needs the extra ray")
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    here = os.pathsep.join(filter(None, sys.path))
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": here, "OMP_NUM_THREADS": "1"}},
    )
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_digits(tmp_path_factory.mktemp("digits"))


def untimed(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept = [{name: value for name, value in record.items() if name not in TIMED} for record in records]
    return sorted(kept, key=lambda record: record["key"])


def pid_of(name: str) -> int | None:
    """The process that shows this name; Ray names a worker by its work."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                title = (entry / "cmdline").read_bytes().rstrip(b"\0").decode(errors="replace")
            except OSError:
                continue
            if title == f"ray::{name}":
                return int(entry.name)
    return None


class Killer(threading.Thread):
    """Kill the worker of a piece of work once it is seen."""

    def __init__(self, name: str) -> None:
        super().__init__(daemon=True)
        self.victim, self.killed = name, 0

    def run(self) -> None:
        until = time.monotonic() + 240
        while not self.killed and time.monotonic() < until:
            pid = pid_of(self.victim)
            if pid is not None:
                time.sleep(0.3)  # in the middle of it
                os.kill(pid, signal.SIGKILL)
                self.killed = pid
            time.sleep(0.01)


def test_eight_runs_with_a_worker_killed_in_the_middle_give_eight_records(
    cluster: Any, root: Path, tmp_path: Path
) -> None:
    # Workers are found by name: another session of these tests on the machine must not have the same ones.
    own = f"{tmp_path.name} of {os.getpid()}"
    plans = small_plans(4, note=own)
    long = small_plans(1, steps=150, methods=("rpt",), note=f"{own} long")[0]
    plans[4] = long
    killer = Killer(name_of(long))
    killer.start()
    told: list[str] = []
    out = tmp_path / "ray.jsonl"
    run_grid(plans, out=out, root=root, cache=tmp_path / "cache", engine=RayPool(), on_retry=told.append)
    killer.join()
    assert killer.killed
    assert len(told) == 1
    assert told[0].startswith(name_of(long))
    records = read_records([out])
    assert len(records) == len(out.read_text().splitlines()) == 8
    assert sorted(record["key"] for record in records) == sorted(plan.key() for plan in plans)
    # The same grid in this process: the same records.
    alone = tmp_path / "local.jsonl"
    run_grid(plans, out=alone, root=root, cache=tmp_path / "other cache", engine=LocalPool())
    assert untimed(read_records([alone])) == untimed(records)
    # Started again, it has nothing to do, and does not even start Ray.
    before = out.read_bytes()
    run_grid(plans, out=out, root=root, cache=tmp_path / "cache", engine=_Refusing())
    assert out.read_bytes() == before


class _Refusing(LocalPool):
    def __enter__(self) -> LocalPool:
        raise AssertionError("there is nothing to do")


def test_a_machine_without_the_data_says_which(cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data folder '.*none' does not exist on .*same path"):
        run_grid(small_plans(1), out=tmp_path / "r.jsonl", root=tmp_path / "none", cache=tmp_path, engine=RayPool())
    assert not (tmp_path / "r.jsonl").exists()


def test_the_command_line_runs_a_grid_with_ray(cluster: Any, root: Path, tmp_path: Path) -> None:
    """ADDA's source network of 10,000 steps would take long; this recipe has none."""
    code, text = invoke(
        *("bench", "mnist-usps", "--data", str(root), "--methods", "source_only", "--recipe", "own", "--seeds", "2"),
        *("-o", str(tmp_path / "r.jsonl"), "--cache", str(tmp_path / "cache"), "--steps", "1"),
        *("--engine", "ray", "--jobs", "2"),
    )
    assert code == 0, text
    assert text.count("target test") == 2
    assert len([json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]) == 2
