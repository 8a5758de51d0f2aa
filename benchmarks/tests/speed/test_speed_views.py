"""Memory of frozen stages' outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from residapt_bench.speed import views
from residapt_bench.speed.views import ViewsRecord, measure_views
from support.cli import invoke

pytest.importorskip("timm")


def test_the_outputs_take_little_memory_however_they_are_kept() -> None:
    few, more = measure_views(32, folder=False), measure_views(96, folder=True)
    assert (few.folder, more.folder) == (False, True)
    assert more.outputs_mb == pytest.approx(96 * 9 * 192 * 4 * 4 * 2 / 2**20, rel=0.01)  # in half precision
    for record in (few, more):
        assert 0 < record.rise_mb < views.AIM
    assert more.rise_mb - few.rise_mb < 30


def test_both_ways_to_keep_them_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(images: int, folder: bool) -> ViewsRecord:
        environment = {"residapt": "0", "torch": "0", "python": "0"}
        values = {"images": images, "folder": folder, "outputs_mb": 9.0, "rise_mb": 120.0, "environment": environment}
        return ViewsRecord.parse(values)

    monkeypatch.setattr(views, "measure_views", measure)
    out = tmp_path / "views.jsonl"
    code, text = invoke("bench", "speed", "views", "-o", str(out))
    assert code == 0, text
    found = [ViewsRecord.model_validate_json(line) for line in out.read_text().splitlines()]
    assert [(one.images, one.folder) for one in found] == [(views.IMAGES, True), (views.IMAGES, False)]
    assert "120" in text
