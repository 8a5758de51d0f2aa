"""Plain lines for logs: what is happening, how far it is, how long it takes, losses by name and ranks."""

from __future__ import annotations

import io
import re
from unittest import mock

from rich.console import Console

from residapt.train import StepInfo
from residapt.train import progress as progress_module
from residapt.train.progress import ProgressBar, describe

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
    bar = ProgressBar("adapting", Console(file=text, width=200))
    bar.on_start(None, 0, 1000)  # type: ignore[arg-type]
    for step in range(1, 1001):
        bar.on_log(None, StepInfo(step, 1000, {"class": 1.0}, {}))  # type: ignore[arg-type]
    assert len(re.findall("step ", text.getvalue())) <= 3  # the first, the last, and one if the machine is slow
    assert "step 1000/1000" in text.getvalue()


def test_losses_and_ranks_in_words() -> None:
    assert describe(INFO) == "class 0.25, domain_accuracy 0.75, ranks 5"


def test_a_terminal_gets_a_bar_that_is_closed_at_the_end() -> None:
    text = io.StringIO()
    bar = ProgressBar("adapting", Console(file=text, force_terminal=True, width=160))
    bar.on_start(None, 0, 40)  # type: ignore[arg-type]
    bar.on_log(None, INFO)  # type: ignore[arg-type]
    bar.on_step(None, 30)  # type: ignore[arg-type]
    bar.on_end(None, 40)  # type: ignore[arg-type]
    assert "30/40" in text.getvalue()
    assert "class 0.25" in text.getvalue()
    bar.close()  # a second time does no harm
