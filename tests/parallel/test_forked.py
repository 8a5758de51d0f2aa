"""Processes that are forked to train together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from residapt.errors import ConfigError
from residapt.parallel.forked import fork_processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks")


def run(code: str, *arguments: str) -> subprocess.Popen[str]:
    program = "import os, sys, time\nfrom residapt.parallel.forked import fork_processes\n" + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_the_processes_form_a_group_and_the_first_one_speaks() -> None:
    done = run("""
        fork_processes(2)
        import torch
        from residapt.distributed import Engine
        engine = Engine("cpu")
        print(engine.rank, engine.world, engine.read([torch.tensor(float(engine.rank))]), flush=True)
    """)
    text, errors = done.communicate(timeout=200)
    assert done.returncode == 0, errors
    assert text == "0 2 [0.5]\n"


@pytest.mark.parametrize(("rank", "code"), [(0, 2), (1, 3)])
def test_one_that_fails_ends_all_and_says_why(rank: int, code: int, tmp_path: Path) -> None:
    started = time.monotonic()
    done = run(
        f"""
        from residapt.parallel import forked
        forked.PATIENCE = 0.5
        fork_processes(2)
        open(sys.argv[1] + "/" + os.environ["RANK"], "w").write(str(os.getpid()))
        if os.environ["RANK"] == "{rank}":
            print("no room", file=sys.stderr, flush=True)
            sys.exit({code})
        time.sleep(300)
        """,
        str(tmp_path),
    )
    _, errors = done.communicate(timeout=200)
    assert (done.returncode, errors.count("no room")) == (code, 1)
    assert time.monotonic() - started < 200
    for file in tmp_path.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(file.read_text()), 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_each_process_once(number: signal.Signals) -> None:
    process = run("""
        import signal
        fork_processes(2)
        heard = []
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, frame: heard.append(number))
        print("ready", flush=True)
        time.sleep(2) if os.environ["RANK"] == "0" else None
        while not heard:
            time.sleep(0.01)
        time.sleep(0.3)
        print(len(heard), flush=True)
        sys.exit(128 + heard[0])
    """)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    process.send_signal(number)
    text, errors = process.communicate(timeout=200)
    assert process.returncode == 128 + number, errors
    assert text == "1\n"


def test_no_processes_are_refused() -> None:
    with pytest.raises(ConfigError, match="1 or more, got 0"):
        fork_processes(0)
