from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from residapt.errors import ConfigError
from residapt.report.charts import Series, line_chart
from residapt.report.html import tag
from residapt.report.page import Section, badge, command, note, render_page, tiles, write_page
from support.page_reader import Seen


def page(body: str = "") -> str:
    return render_page("title", tag("h1", "head"), [Section("one", "First <", tag("p", body), "1")])


def test_a_page_asks_for_nothing_from_outside() -> None:
    chart = line_chart("loss", [Series("class", [1, 2], [3, 4], "--a")])
    seen = Seen(render_page("t", "h", [Section("a", "A", chart)]))
    for name, attributes in seen.elements:
        for key in ("src", "href"):
            assert (attributes.get(key) or "#").startswith(("#", "data:")), (name, attributes)
    policy = next(a["content"] for _, a in seen.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert "default-src 'none'" in policy
    assert not re.search(r"https?:|\*|'unsafe-eval'", policy)
    css = files("residapt.report").joinpath("page.css").read_text()
    assert not re.search(r"url\(|@import|@font-face", css)


def test_plotly_is_inside_once_and_only_where_there_is_a_chart() -> None:
    charts = [Section(name, name, line_chart("loss", [Series("class", [1], [2], "--a")])) for name in "ab"]
    assert render_page("t", "h", charts).count("plotly.js v") == 1
    assert "plotly.js v" not in page()


def test_sections_have_anchors_and_a_table_of_contents() -> None:
    seen = Seen(page())
    assert ("section", {"id": "one"}) in seen.elements
    assert ("a", {"href": "#one"}) in seen.elements
    assert "First <" in seen.text


def test_writing_replaces_the_page_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    write_page(path, render_page("new", "h", []))
    assert "<title>new</title>" in path.read_text()
    assert list(tmp_path.iterdir()) == [path]


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")

    def full(self: Path, *_args: object, **_kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(ConfigError, match="No space left"):
        write_page(path, render_page("new", "h", []))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_building_blocks_escape() -> None:
    for block in (note("<b>", "bad"), command("<b>"), badge("<b>"), tiles([("<b>", "<b>", "<b>")])):
        seen = Seen(block)
        assert "<b>" in seen.text
        assert "b" not in [name for name, _ in seen.elements]
