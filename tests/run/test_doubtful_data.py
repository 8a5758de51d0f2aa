"""Target images that are source images are noticed, of very many by a few of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from residapt.data.decoded import CacheConfig
from residapt.data.sources import Reading, open_source, open_target
from residapt.models.input_spec import InputSpec
from residapt.run import scoring
from support.small_world import labelled

READING = Reading(InputSpec(size=8, channels=1, mean=(0.5,), std=(0.5,)), cache=CacheConfig(0))


@pytest.mark.parametrize("few", [1000, 4])
def test_a_target_that_is_the_source_is_noticed(tmp_path: Path, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "FEW_FILES", few)
    monkeypatch.setattr(scoring, "COMPARED", 3)
    folder = labelled(tmp_path / "source", each=4)
    (note,) = scoring.doubtful_data(open_source(folder, READING), open_target(folder, READING))
    assert "12 of the 12" in note
    assert note.startswith("about") == (few == 4)
