"""metrics.jsonl: one line per logged step, rank change and note."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from residapt.rank import RankChange
from residapt.train.events import Callback, StepInfo
from residapt.train.method import Method


class MetricsFile(Callback):
    """Append what happens to a file, one JSON object a line, flushed at once."""

    def __init__(self, path: Path, **stamp: Any) -> None:
        self.path, self.stamp = path, stamp
        self._started = time.monotonic()

    def write(self, kind: str, **values: Any) -> None:
        """Append one line."""
        line = {"kind": kind, **self.stamp, **values, "seconds": round(time.monotonic() - self._started, 3)}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def on_log(self, method: Method, info: StepInfo) -> None:
        """Losses, watched numbers and ranks."""
        self.write("step", step=info.step, values=info.values, ranks=info.ranks)

    def on_ranks(self, method: Method, step: int, changes: list[RankChange]) -> None:
        """Which ranks fell."""
        self.write("ranks", step=step, changes={c.layer: [list(c.before), list(c.after)] for c in changes})

    def on_notice(self, method: Method, step: int, notice: str) -> None:
        """A note in plain words."""
        self.write("notice", step=step, text=notice)
