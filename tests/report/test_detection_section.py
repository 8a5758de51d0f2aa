"""The precision-recall curve of a report: there for detection, with the numbers of the summary."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from sklearn.metrics import auc

from residapt.report import write_report
from residapt.storage.run_directory import RunDirectory
from support.made_up_detection import detections
from support.made_up_run import make_run


def section(run: RunDirectory) -> str:
    page = write_report(run).read_text(encoding="utf-8")
    found = re.search(r'<section id="detection">.*?</section>', page, re.DOTALL)
    return found.group() if found else ""


def test_only_where_one_class_was_looked_for(tmp_path: Path) -> None:
    assert section(make_run(tmp_path / "many")) == ""
    assert section(make_run(tmp_path / "two", detections=detections())) != ""


def test_the_curve_has_the_area_that_the_table_says(tmp_path: Path) -> None:
    given = detections()
    text = section(make_run(tmp_path / "run", detections=given))
    figure = json.loads(re.findall(r'class="chart-data">(.*?)</script>', text, re.DOTALL)[0])
    assert [trace["line"]["color"] for trace in figure["data"]] == ["--before", "--target"]
    for trace, one in zip(figure["data"], given, strict=True):
        ap = one.detection.average_precision
        assert trace["name"].endswith(f"AP {ap:.3f}")
        assert f"{ap:.3f}</" in text
        assert trace["line"]["shape"] == "vh"
        assert (trace["x"][0], trace["x"][-1]) == (0.0, 1.0)
        # The steps that the chart draws; of 200 points of a thinned curve, so that the area is nearly the AP.
        area = sum((b - a) * y for a, b, y in zip(trace["x"], trace["x"][1:], trace["y"][1:], strict=False))
        assert area == pytest.approx(ap, abs=0.02)
        assert auc(trace["x"], trace["y"]) == pytest.approx(ap, abs=0.03)
    (level,) = figure["layout"]["shapes"]
    assert level["y0"] == pytest.approx(80 / 4000), "a random order"
    assert "0.020" in text


def test_names_from_outside_stay_text(tmp_path: Path) -> None:
    text = section(make_run(tmp_path / "run", detections=detections("<b>{x}</b>", "$y$")))
    assert "<b>" not in text
    assert "&lt;b&gt;{x}&lt;/b&gt;" in text
