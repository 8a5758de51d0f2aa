"""When scores are recorded along a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from residapt.data.domains import Labelled, TensorImages
from residapt.evaluate.predict import Evaluation, accuracy
from residapt.run.along import ScoresAlong
from residapt.train.metrics import MetricsFile
from support.tiny_run import keep, tiny_pair, tiny_trainer


@pytest.mark.parametrize(
    ("steps", "every", "recorded"),
    [
        (24, 8, [0, 8, 16, 24]),
        (25, 8, [0, 8, 16, 25]),  # a record at 24 would end the curve in a spike
        (28, 8, [0, 8, 16, 24, 28]),
        (5, 8, [0, 5]),
    ],
)
def test_curves_begin_with_the_source_network_and_end_with_the_result(
    tmp_path: Path, steps: int, every: int, recorded: list[int]
) -> None:
    pair = tiny_pair(augment=False)
    images = torch.cat([pair.target.fetch(torch.arange(30), torch.Generator())] * 2)
    scored = Evaluation("scored", Labelled(TensorImages(images, keep), torch.arange(60) % 3))
    along = ScoresAlong(
        pair.source, pair.target, every=every, evaluation=scored, metrics=MetricsFile(tmp_path / "m", stage="adapt")
    )
    trainer = tiny_trainer(callbacks=[along], pair=pair, steps=steps)
    before = accuracy(trainer.method, Evaluation("scored", scored.data, stream="source"))
    trainer.run()
    lines = [json.loads(line) for line in (tmp_path / "m").read_text().splitlines()]
    for kind in ("scores", "accuracy"):
        assert [line["step"] for line in lines if line["kind"] == kind] == recorded
    accuracies = [line["values"]["scored"] for line in lines if line["kind"] == "accuracy"]
    assert accuracies[0] == before
    assert accuracies[-1] == accuracy(trainer.method, scored)
    bnm = [line["values"]["bnm"] for line in lines if line["kind"] == "scores"]
    assert all(1 / 3 < value <= 1 for value in bnm)


def test_scores_that_nobody_reads_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[int] = []
    monkeypatch.setattr("residapt.run.along.scores_of", lambda *_: called.append(1) or {"bnm": 0.5})
    pair = tiny_pair(augment=False)
    for select, times in (("last", 0), ("bnm", 3)):
        along = ScoresAlong(pair.source, pair.target, every=8, select=select)
        trainer = tiny_trainer(callbacks=[along], pair=pair, steps=24)
        trainer.run()
        assert len(called) == times
        assert (along.best is None) == (select == "last")
