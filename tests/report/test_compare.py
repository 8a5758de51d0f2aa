"""``residapt compare``: the numbers of each run's summary, side by side."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from residapt.errors import DataError
from residapt.report.compare import cautions, read_finished, render_comparison
from residapt.storage.summary import Accuracy, Verdict
from support.cli import invoke
from support.made_up_run import HELD_OUT, make_run
from support.page_reader import Seen


def two_runs(folder: Path) -> list[Path]:
    first = make_run(folder / "first")
    scored = [
        Accuracy(name=HELD_OUT, stage="source_only", percent=70.0, images=398, protocol="held-out"),
        Accuracy(name=HELD_OUT, stage="adapted", percent=91.3, images=398, protocol="held-out"),
    ]
    verdict = Verdict(helped=False, selected="source")
    changes = {"method": "dann", "accuracies": scored, "verdict": verdict, "scores": {"bnm": (0.4, 0.123)}}
    second = make_run(folder / "second <b>", **changes)
    first.model.write_bytes(b"x" * 3_100_000)
    second.model.write_bytes(b"x" * 7_300_000)
    second.adapter.mkdir()
    (second.adapter / "adapter.safetensors").write_bytes(b"x" * 1_200_000)
    return [first.path, second.path]


def test_a_run_is_read_with_size_time_and_recipe(tmp_path: Path) -> None:
    first, second = map(read_finished, two_runs(tmp_path))
    assert (first.size, first.adapter) == (3_100_000, None)
    assert (second.size, second.adapter) == (7_300_000, 1_200_000)
    assert first.minutes == pytest.approx((30 + 412 + 861 + 60 + 44 + 30) / 60)
    assert first.recipe == "default"
    assert second.scored[HELD_OUT, "held-out"].gain == pytest.approx(21.3)
    assert (HELD_OUT, "transductive") not in second.scored


def test_the_table_has_the_numbers_of_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    paths = two_runs(tmp_path)
    code, text = invoke("compare", *map(str, paths))
    assert code == 0, text
    (first,) = [line for line in text.splitlines() if "│ first" in line]
    (second,) = [line for line in text.splitlines() if "│ second <b>" in line]
    for value in ("rpt (default)", "71.2 → 82.4", "71.9 → 83.1", "adapted", "3.1", "23.9"):
        assert value in first
    for value in ("dann (default)", "70.0 → 91.3", "–", "source", "7.3", "23.9"):
        assert value in second
    assert re.search(r"BNM *│ *0.82 *│ *0.123", text)
    assert re.search(r"DEV *│ *−1.05 *│ *–", text)


def test_the_page_has_them_as_well(tmp_path: Path) -> None:
    out = tmp_path / "comparison.html"
    code, text = invoke("compare", *map(str, two_runs(tmp_path)), "-o", str(out))
    assert code == 0, text
    page = out.read_text(encoding="utf-8")
    shown = Seen(re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.S)).text
    for value in ("first", "second <b>", "82.4", "91.3", "+21.3", "0.123", "7.3", "1.2"):
        assert value in shown
    charts = [json.loads(one) for one in re.findall(r'class="chart-data">(.*?)</script>', page, re.S)]
    assert charts[0]["data"][1]["x"] == pytest.approx([0.824, 0.913])
    assert "<strong>91.3" in page
    assert "<strong>82.4" not in page
    assert invoke("compare", str(tmp_path / "first"), "-o", str(out))[0] == 2, "an existing page is kept"


def test_runs_that_cannot_be_compared_are_said_to_be(tmp_path: Path) -> None:
    paths = two_runs(tmp_path)
    assert cautions([read_finished(paths[0])] * 2) == []
    other = make_run(tmp_path / "other", classes=["a", "b"], target_images=5)
    assert len(cautions([read_finished(paths[0]), read_finished(other.path)])) == 2
    assert cautions([read_finished(path) for path in paths]) == []


def test_unfinished_runs_are_left_out(tmp_path: Path) -> None:
    paths = two_runs(tmp_path)
    open_run = make_run(tmp_path / "open", finished=False)
    code, text = invoke("compare", str(paths[0]), str(open_run.path))
    assert code == 0
    assert str(open_run.summary) in text
    assert invoke("compare", str(open_run.path))[0] == 2
    assert invoke("compare", str(paths[0]), str(tmp_path))[0] == 2, "no run at all"


def test_nothing_to_compare_is_refused() -> None:
    with pytest.raises(DataError):
        render_comparison([])
