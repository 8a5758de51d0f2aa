"""Event files after a kill: every step once."""

from __future__ import annotations

from pathlib import Path

import pytest

from residapt.train import Callback, Method
from residapt.train.checkpoint import Checkpointer, restore_checkpoint
from residapt.train.tensorboard import TensorBoard
from support.tiny_run import tiny_trainer

events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="needs tensorboard")


class Killed(BaseException):
    """The end of a process, for a test."""


class Kill(Callback):
    def __init__(self, step: int, board: TensorBoard) -> None:
        self.step, self.board = step, board

    def on_step(self, method: Method, step: int) -> None:
        if step == self.step:
            self.board.writer.flush()  # the writer's thread does so from time to time
            raise Killed


@pytest.mark.parametrize(("die", "saved"), [(3, 0), (9, 5)])
def test_a_resumed_run_has_every_step_once(die: int, saved: int, tmp_path: Path) -> None:
    board, checkpoints = TensorBoard(tmp_path / "board", "adapt"), Checkpointer(tmp_path / "saved", 5)
    with pytest.raises(Killed):
        tiny_trainer("rpt", [board, Kill(die, board), checkpoints], steps=12).run()
    again = tiny_trainer(
        "rpt", [TensorBoard(tmp_path / "board", "adapt"), Checkpointer(tmp_path / "saved", 5)], steps=12
    )
    assert restore_checkpoint(again, tmp_path / "saved") == saved
    again.run()
    whole = TensorBoard(tmp_path / "whole", "adapt")
    tiny_trainer("rpt", [whole], steps=12).run()
    assert read(tmp_path / "board") == read(tmp_path / "whole")
    assert [step for step, _ in read(tmp_path / "board")] == list(range(1, 13))


def read(folder: Path) -> list[tuple[int, float]]:
    found = events.EventAccumulator(str(folder / "adapt"))
    found.Reload()
    return [(event.step, event.value) for event in found.Scalars("adapt/total")]
