"""Event files for TensorBoard (extra ``tensorboard``)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from residapt.errors import ConfigError, ResidaptError
from residapt.train.callbacks import Callback, StepInfo
from residapt.train.method import Method

if TYPE_CHECKING:
    from residapt.train.trainer import Trainer


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
        self._make, self.folder, self.stage = check_tensorboard(), folder, stage
        self.writer: Any = None

    def on_start(self, method: Method, step: int, steps: int) -> None:
        """Open a file; what an earlier process wrote after ``step``, before it was killed, is taken back.

        Each stage has a folder of its own, since taking back counts for all files of a folder.
        """
        self.writer = self._make(log_dir=str(self.folder / self.stage), purge_step=step + 1 if step > 0 else 0)

    def on_log(self, method: Method, info: StepInfo) -> None:
        """Losses and the ranks of each layer."""
        for name, value in info.values.items():
            self.writer.add_scalar(f"{self.stage}/{name}", value, info.step)
        for layer, (left, right) in info.ranks.items():
            self.writer.add_scalar(f"ranks_left/{layer}", left, info.step)
            self.writer.add_scalar(f"ranks_right/{layer}", right, info.step)

    def on_note(self, method: Method, step: int, note: str) -> None:
        """A note in plain words."""
        self.writer.add_text(f"{self.stage}/notes", note, step)

    def on_interrupt(self, trainer: Trainer) -> None:
        """Bring what there is to the disk."""
        self.writer.flush()

    def on_failure(self, method: Method, step: int, error: ResidaptError) -> None:
        """Bring what there is to the disk."""
        self.writer.flush()

    def on_end(self, method: Method, step: int) -> None:
        """Write what is left and close the file."""
        self.writer.close()
