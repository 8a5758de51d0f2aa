"""metrics.jsonl: one line per logged step, rank change, note and ended training."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from residapt.errors import TrainingError
from residapt.rank import RankChange
from residapt.train.callbacks import Callback, CallbackState, RecoveryInfo, StepInfo
from residapt.train.method import Method


class MetricsFile(Callback):
    """Append what happens to a file, one JSON object a line, flushed at once."""

    def __init__(self, path: Path, **stamp: Any) -> None:
        self.path, self.stamp = path, stamp
        self._started = time.monotonic()

    def write(self, kind: str, **values: Any) -> None:
        """Append one line."""
        line = {"kind": kind, **self.stamp, **values, "seconds": round(time.monotonic() - self._started, 3)}
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise TrainingError(f"'{self.path}' cannot be written: {error.strerror}. Make room there.") from error

    def on_log(self, method: Method, info: StepInfo) -> None:
        """Losses, watched numbers and ranks."""
        self.write("step", step=info.step, values=info.values, ranks=info.ranks)

    def on_ranks(self, method: Method, step: int, changes: list[RankChange]) -> None:
        """Which ranks fell."""
        self.write("ranks", step=step, changes={c.layer: [list(c.before), list(c.after)] for c in changes})

    def on_note(self, method: Method, step: int, note: str) -> None:
        """A note in plain words."""
        self.write("note", step=step, text=note)

    def on_recovery(self, method: Method, step: int, info: RecoveryInfo) -> None:
        """Where training went back to, and why."""
        finite = info.value if math.isfinite(info.value) else None  # JSON knows no other numbers
        self.write("recovery", step=step, **{**asdict(info), "value": finite})

    def on_end(self, method: Method, step: int) -> None:
        """How many steps it were."""
        self.write("end", step=step)

    def state(self) -> CallbackState:
        """How long the file is, and how long the run has taken; the lines so far are brought to the disk."""
        size = 0
        if self.path.exists():
            with self.path.open("rb") as file:
                os.fsync(file.fileno())
                size = os.fstat(file.fileno()).st_size
        return CallbackState({"bytes": size, "seconds": time.monotonic() - self._started})

    def restore(self, method: Method, state: CallbackState) -> None:
        """Cut off what was written after the checkpoint, so that no line is missing and none is there twice."""
        self._started = time.monotonic() - float(state.values["seconds"])
        if self.path.exists():
            os.truncate(self.path, min(int(state.values["bytes"]), self.path.stat().st_size))


def recorded_lines(path: Path, kind: str) -> Iterator[dict[str, Any]]:
    """The lines of a kind in a metrics file; one that was cut off is left out."""
    if not path.exists():
        return
    for text in path.read_text(encoding="utf-8").splitlines():
        with suppress(ValueError):
            line = json.loads(text)
            if isinstance(line, dict) and line.get("kind") == kind:
                yield line
