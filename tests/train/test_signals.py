"""Ctrl-C, SIGTERM, kill -9, a full disk and a lack of memory, each for real."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from residapt.data.domains import DomainPair, TensorImages
from residapt.errors import Interrupted, ResidaptError
from residapt.storage import checkpoint as files
from residapt.train import Callback, Method, Trainer
from residapt.train.checkpoint import Checkpointer, restore_checkpoint
from residapt.train.metrics import MetricsFile
from residapt.train.signals import stop_on_signals
from support.tiny_run import tiny_pair, tiny_trainer

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and limits")
COMMAND = "residapt adapt --resume run"


class Send(Callback):
    """Send signals to this process at a step."""

    def __init__(self, step: int, *numbers: int) -> None:
        self.step, self.numbers = step, numbers

    def on_step(self, method: Method, step: int) -> None:
        if step == self.step:
            for number in self.numbers:
                # Unlike os.kill, this waits for the handler: two signals sent in a row cannot become one.
                signal.raise_signal(number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_after_the_step_with_a_checkpoint(number: signal.Signals, tmp_path: Path) -> None:
    whole = tiny_trainer("rpt", steps=10)
    whole.run()
    before = signal.getsignal(number)
    trainer = tiny_trainer("rpt", [Send(7, number), Checkpointer(tmp_path, 100, command=COMMAND)], steps=10)
    with (
        pytest.raises(Interrupted, match=rf"{number.name}.*step 7 of 10.*{COMMAND}") as caught,
        stop_on_signals(trainer),
    ):
        trainer.run()
    assert (caught.value.step, caught.value.signal) == (7, number)
    assert signal.getsignal(number) is before
    resumed = tiny_trainer("rpt", steps=10)
    assert restore_checkpoint(resumed, tmp_path) == 7
    resumed.run()
    for name, tensor in whole.method.state_dict().items():
        assert torch.equal(tensor, resumed.method.state_dict()[name]), name


def test_the_second_ctrl_c_ends_at_once(tmp_path: Path) -> None:
    # Workers of a parallel test run ignore Ctrl-C; a program that was started by hand does not.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    trainer = tiny_trainer("rpt", [Send(3, signal.SIGINT, signal.SIGINT), Checkpointer(tmp_path, 100)])
    try:
        with pytest.raises(KeyboardInterrupt), stop_on_signals(trainer):
            trainer.run()
    finally:
        signal.signal(signal.SIGINT, before)
    assert files.steps_in(tmp_path) == [0]


def test_without_a_checkpoint_the_message_does_not_promise_one() -> None:
    trainer = tiny_trainer("rpt", [Send(3, signal.SIGINT)])
    with pytest.raises(Interrupted) as caught, stop_on_signals(trainer):
        trainer.run()
    assert caught.value.step == 3
    assert "--resume" not in str(caught.value)


def test_a_signal_at_the_last_step_is_not_lost(tmp_path: Path) -> None:
    trainer = tiny_trainer("rpt", [Send(5, signal.SIGINT), Checkpointer(tmp_path, 100)], steps=5)
    with pytest.raises(Interrupted, match="step 5 of 5"), stop_on_signals(trainer):
        trainer.run()


def test_in_another_thread_nothing_happens() -> None:
    trainer = tiny_trainer("rpt", steps=2)
    failed: list[BaseException] = []

    def work() -> None:
        try:
            with stop_on_signals(trainer):
                trainer.run()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failed
    assert trainer.step == 2


def in_child(work: Callable[[], None], kill_after: float | None = None) -> int:
    """Fork, work, and give the wait status; torch is imported once, in the parent, and has no threads here."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
            os._exit(1)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)  # a child of a process with threads of its own could wait for them forever


def test_a_file_size_limit_is_a_clear_error(tmp_path: Path) -> None:
    """The system itself refuses the write in the middle of a checkpoint."""

    def work() -> None:
        size = (files.folder_of(tmp_path, 0) / files.TENSORS).stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        trainer = tiny_trainer("rpt", [Checkpointer(tmp_path, 5, command=COMMAND)])
        restore_checkpoint(trainer, tmp_path)
        try:
            trainer.run()
        except ResidaptError as error:
            (tmp_path / "message").write_text(str(error))

    first = tiny_trainer("rpt", [Checkpointer(tmp_path, 2)], steps=2)
    first.run()
    assert in_child(work) == 0
    message = (tmp_path / "message").read_text()
    assert "cannot be written" in message
    assert "checkpoint of step 2 is complete" in message
    assert COMMAND in message
    assert files.steps_in(tmp_path) == [2, 0]
    assert not list(tmp_path.glob(f"{files.TEMPORARY}*"))


class Greedy(TensorImages):
    """Images that need a gigabyte from the eighth batch on."""

    calls = 0

    def fetch(self, index: Tensor, generator: torch.Generator) -> Tensor:
        self.calls += 1
        if self.calls > 7:
            torch.zeros(1 << 28)
        return super().fetch(index, generator)


def test_a_memory_limit_is_a_clear_error(tmp_path: Path) -> None:
    def work() -> None:
        pair = tiny_pair()
        target = Greedy(pair.target.images, pair.target.transform)  # type: ignore[attr-defined]
        trainer = tiny_trainer("rpt", [Checkpointer(tmp_path, 5)], pair=DomainPair(pair.source, target))
        target.calls = 0
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 29), used + (1 << 29)))
        try:
            trainer.run()
        except ResidaptError as error:
            (tmp_path / "message").write_text(str(error))

    assert in_child(work) == 0
    message = (tmp_path / "message").read_text()
    assert "not enough memory for the next batch after step 7" in message
    assert "checkpoint of step 5 is complete" in message
    assert restore_checkpoint(tiny_trainer("rpt"), tmp_path) == 5


def finish_or_die(folder: Path, die_at: int | None = None) -> None:
    """Start or resume the run; ``die_at`` kills the process at that call of a checkpoint that reaches the disk."""
    if die_at is not None:
        left = [die_at]

        def deadly(real: Callable[..., object]) -> Callable[..., object]:
            def call(*args: object) -> object:
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*args)

            return call

        for name in ("_save_tensors", "_sync", "_describe"):
            setattr(files, name, deadly(getattr(files, name)))
        files.os.rename = deadly(os.rename)  # type: ignore[assignment]
    trainer = killed_trainer(folder)
    if files.steps_in(folder / "checkpoint"):
        restore_checkpoint(trainer, folder / "checkpoint")
    trainer.run()
    torch.save(trainer.method.state_dict(), folder / "final.pt")


def killed_trainer(folder: Path) -> Trainer:
    folder.mkdir(exist_ok=True)
    return tiny_trainer(
        "rpt", [MetricsFile(folder / "metrics.jsonl"), Checkpointer(folder / "checkpoint", 3)], steps=60
    )


@pytest.mark.slow
def test_twenty_kills_change_nothing(tmp_path: Path) -> None:
    """kill -9 at random moments, eight of them within a checkpoint, each resumed: bit-equal, no gaps, no doubles."""
    whole = tmp_path / "whole"
    started = time.monotonic()
    assert in_child(lambda: finish_or_die(whole)) == 0
    takes = time.monotonic() - started
    dice, kills = random.Random(1), 0
    cuts = [tmp_path / "cut0"]
    while kills < 20:
        cut = cuts[-1]
        if kills % 5 < 2:
            status = in_child(lambda cut=cut: finish_or_die(cut, die_at=dice.randrange(1, 30)))
        else:
            status = in_child(lambda cut=cut: finish_or_die(cut), kill_after=dice.uniform(0.0, takes / 8))
        if os.WIFSIGNALED(status):
            kills += 1
        else:
            # It got to the end between two kills, which depends on the machine's load: the next run takes the others.
            assert status == 0
            cuts.append(tmp_path / f"cut{len(cuts)}")
    assert in_child(lambda: finish_or_die(cuts[-1])) == 0
    for cut in cuts:
        assert_same_end(whole, cut)


def assert_same_end(whole: Path, cut: Path) -> None:
    before, after = (torch.load(folder / "final.pt", weights_only=True) for folder in (whole, cut))
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        assert torch.equal(tensor, after[name]), name
    steps = [json.loads(line) for line in (cut / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in steps if line["kind"] == "step"] == list(range(1, 61))
    assert [_untimed(line) for line in steps] == [
        _untimed(json.loads(line)) for line in (whole / "metrics.jsonl").read_text().splitlines()
    ]


def _untimed(line: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in line.items() if key != "seconds"}
