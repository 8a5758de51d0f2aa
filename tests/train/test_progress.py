"""Progress on terminals of several widths and in logs: how far, how long, losses by name, ranks and phases."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from unittest import mock

import pytest
from rich.console import Console

from residapt.train import StepInfo
from residapt.train import progress as progress_module
from residapt.train.progress import ProgressBar, describe, fitting, phase

INFO = StepInfo(30, 40, {"class": 0.25, "domain_accuracy": 0.75, "total": 9.0}, {"a": (3, 2), "b": (0, 0)})


def test_a_line_says_how_far_and_how_long() -> None:
    text = io.StringIO()
    bar = ProgressBar("adapting [x]", Console(file=text, width=200))
    with mock.patch.object(progress_module.time, "monotonic", side_effect=[100.0, 140.0, 140.0]):
        bar.on_start(None, 10, 40)  # type: ignore[arg-type]
        bar.on_log(None, INFO)  # type: ignore[arg-type]
    lines = text.getvalue().splitlines()
    assert lines[0] == "adapting [x]: 30 steps"
    # 20 steps took 40 seconds, so 10 more take 20.
    assert lines[1] == "adapting [x]: step 30/40, 40 s, about 20 s left, class 0.25, domain_accuracy 0.75, ranks 5"


def test_lines_do_not_come_faster_than_people_read() -> None:
    text = io.StringIO()
    console = Console(file=text, width=200)
    bar = ProgressBar("adapting", console)
    bar.on_start(None, 0, 1000)  # type: ignore[arg-type]
    for step in range(1, 1001):
        bar.on_log(None, StepInfo(step, 1000, {"class": 1.0}, {}))  # type: ignore[arg-type]
        with phase("evaluating", console):
            pass
    assert len(re.findall("step ", text.getvalue())) <= 3  # the first, the last, and one if the machine is slow
    assert "step 1000/1000" in text.getvalue()
    assert "evaluating" not in text.getvalue()


def test_losses_and_ranks_in_words() -> None:
    assert describe(INFO) == ["class 0.25", "domain_accuracy 0.75", "ranks 5"]


@pytest.mark.parametrize(("width", "kept"), [(9, 0), (10, 1), (31, 1), (32, 2), (41, 3), (80, 3)])
def test_numbers_are_shown_whole_or_not_at_all(width: int, kept: int) -> None:
    assert fitting(describe(INFO), width) == ", ".join(describe(INFO)[:kept])


def test_a_phase_without_a_bar_is_a_line_of_a_log() -> None:
    text = io.StringIO()
    with phase("writing the report [x]", Console(file=text, width=200)):
        assert text.getvalue() == "writing the report [x] ...\n"


def test_a_closed_bar_leaves_the_terminal_to_others() -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=160)
    for _ in range(2):
        bar = ProgressBar("adapting", console)
        bar.on_start(None, 0, 40)  # type: ignore[arg-type]
        bar.on_end(None, 40)  # type: ignore[arg-type]
        bar.close()  # a second time does no harm
    with phase("computing scores", console):
        pass
    assert "computing scores" in text.getvalue()


CHILD = """
import fcntl, struct, sys, termios
from rich.console import Console
from residapt.train import StepInfo
from residapt.train.progress import ProgressBar, phase

numbers = {"class": .123, "confusion": 1.234, "domain": .345, "stream": 1.01, "domain_accuracy": .678, "energy": 1.23}
for columns in (60, 80, 120):
    fcntl.ioctl(sys.stdout, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    console = Console()
    print(f"\\n#{console.width}#")
    bar = ProgressBar("training the source network", console)
    bar.on_start(None, 0, 12345)
    for step in range(1, 101):
        bar.on_step(None, step)
    bar.on_log(None, StepInfo(100, 12345, numbers, {"a": (32, 32)}))
    bar._lines.refresh()
    with phase("computing scores", console):
        pass
    bar.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_steps_bar_and_time_left_are_always_visible() -> None:
    """What a pseudo-terminal of three widths is sent, frame by frame."""
    import pty

    controller, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
        environment.pop(name, None)
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=terminal, stdout=terminal, stderr=terminal, env=environment
    )
    os.close(terminal)
    sent = _read_all(controller)
    assert child.wait() == 0, sent
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", sent)
    screens = re.split(r"#(\d+)#", plain)[1:]
    assert screens[::2] == ["60", "80", "120"]
    for columns, screen in zip(map(int, screens[::2]), screens[1::2], strict=True):
        lines = [line.rstrip() for line in re.split(r"[\r\n]+", screen) if line.strip()]
        assert all(len(line) <= columns for line in lines), lines
        bars = [line for line in lines if "/12345" in line]
        shown = [line for line in bars if "100/12345" in line]
        assert len(shown) >= 2, lines
        assert all(re.search(r"━{5,} +\d+/12345 +(\d+:\d\d:\d\d|-:--:--) left", line) for line in bars), bars
        assert any("class 0.123, confusion 1.23" in line for line in lines)
        assert any("computing scores" in line for line in lines)
        assert any("ranks 64" in line for line in lines) == (columns == 120)


def _read_all(descriptor: int) -> str:
    pieces = []
    while True:
        try:
            piece = os.read(descriptor, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        pieces.append(piece)
    os.close(descriptor)
    return b"".join(pieces).decode()
