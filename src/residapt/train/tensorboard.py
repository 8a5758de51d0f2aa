"""Event files for TensorBoard (extra ``tensorboard``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from residapt.errors import ConfigError
from residapt.train.events import Callback, StepInfo
from residapt.train.method import Method


def check_tensorboard() -> Any:
    """The writer's class, or an error that names the extra."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ConfigError("--tensorboard needs a package: pip install 'residapt[tensorboard]'.") from None
    return SummaryWriter


class TensorBoard(Callback):
    """Losses, watched numbers, ranks and notes as TensorBoard events."""

    def __init__(self, folder: Path, stage: str) -> None:
        self.writer, self.stage = check_tensorboard()(log_dir=str(folder)), stage

    def on_log(self, method: Method, info: StepInfo) -> None:
        """Losses and the ranks of each layer."""
        for name, value in info.values.items():
            self.writer.add_scalar(f"{self.stage}/{name}", value, info.step)
        for layer, (left, right) in info.ranks.items():
            self.writer.add_scalar(f"ranks_left/{layer}", left, info.step)
            self.writer.add_scalar(f"ranks_right/{layer}", right, info.step)

    def on_notice(self, method: Method, step: int, notice: str) -> None:
        """A note in plain words."""
        self.writer.add_text(f"{self.stage}/notes", notice, step)

    def on_end(self, method: Method, step: int) -> None:
        """Write what is left and close the file."""
        self.writer.close()
