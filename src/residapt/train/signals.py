"""Ctrl-C and SIGTERM ask training to stop after the present step, with a checkpoint; a second one ends it at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from residapt.train.trainer import Trainer

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_on_signals(trainer: Trainer) -> Iterator[None]:
    """Within this context the first signal sets a flag that the trainer reads after each step.

    The second finds the handlers that were there before, which end the program. Only the main thread of a program gets
    signals; elsewhere this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def put_back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def ask(number: int, _frame: FrameType | None) -> None:
        put_back()
        trainer.request_stop(number)

    for number in SIGNALS:
        signal.signal(number, ask)
    try:
        yield
    finally:
        put_back()
