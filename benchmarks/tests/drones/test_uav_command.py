from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from bench_support.drone_photographs import write_photographs
from residapt_bench.drones.patches import FOLDERS
from residapt_bench.drones.render import standin
from residapt_bench.drones.render.standin import StandInConfig
from support.cli import invoke

QUICK = ("--steps", "1", "--source-steps", "1", "--seeds", "1", "--set", "train.batch_size=4")


@pytest.fixture
def small_standin(monkeypatch: pytest.MonkeyPatch) -> None:
    small = StandInConfig(labelled=10, birds=0.5, held=0.3, synthetic=6, source_negatives=6, crops=2)
    monkeypatch.setattr(standin, "StandInConfig", lambda: small)


def test_uav_runs_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    for number, folder in enumerate(FOLDERS):
        (tmp_path / folder).mkdir(parents=True)
        for place in range(4):
            Image.new("L", (40, 40), 40 * number + place).save(tmp_path / folder / f"{place}.png")
    out = tmp_path / "r.jsonl"
    command = ("bench", "uav", "--data", str(tmp_path), "--out", str(out), "--cache", str(tmp_path / "c"), *QUICK)
    code, text = invoke(*command, "--methods", "source_only,rpt", "--labels", "2,4")
    assert code == 0, text
    assert [json.loads(line)["labelled"] for line in out.read_text().splitlines()] == [0, 2, 4]
    assert "rpt 4 labels seed 0: target_test AP" in text
    code, text = invoke(*command, "--methods", "source_only,rpt,fine_tune", "--labels", "2,4")
    assert code == 0, text
    assert len(out.read_text().splitlines()) == 5


def test_the_standin_is_drawn_scored_and_shown(tmp_path: Path, small_standin: None) -> None:
    root, out, figure = write_photographs(tmp_path), tmp_path / "r.jsonl", tmp_path / "docs/f.svg"
    places = ("--data", str(root), "--cache", str(tmp_path / "c"))
    command = ("bench", "drone-standin", *places, "--out", str(out), *QUICK, "--methods", "fine_tune,rpt")
    code, text = invoke(*command, "--labels", "2,5")
    assert code == 0, text
    assert "drawing drones: 6 of 6" in text
    assert "second AP" in text
    code, text = invoke(*command, "--labels", "2", "--validation", "--note", "try")
    assert code == 0, text
    assert "validation AP" in text
    page = tmp_path / "docs/page.md"
    figure.parent.mkdir()
    names = ("methods", "differences", "labels", "ranks", "tries", "figure")
    page.write_text("".join(f"<!-- {name} -->\n<!-- end {name} -->\n" for name in names))
    code, text = invoke("bench", "drone-table", str(out), "--figure", str(figure), "--page", str(page))
    assert code == 0, text
    assert "](f.svg)" in page.read_text()
    assert "| RPT | try |" in page.read_text()
    assert "| RPT | try |" in text
    assert figure.read_text().startswith("<svg")
    code, text = invoke("bench", "drone-sheet", *places, "-o", str(tmp_path / "s.png"))
    assert code == 0, text
    assert "| brightness |" in text
    assert (tmp_path / "s.png").is_file()
