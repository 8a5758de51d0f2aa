from __future__ import annotations

import pytest

from residapt.report.html import tag
from residapt.report.tables import Column, folded, table
from support.page_reader import Seen


def test_cells_are_escaped_unless_they_are_html() -> None:
    text = table(["name", Column("value", number=True)], [("<script>", tag("b", "1"))], caption="a <i> caption")
    seen = Seen(text)
    names = [name for name, _ in seen.elements]
    assert "script" not in names
    assert names.count("b") == 1
    assert "<script>" in seen.text
    assert "a <i> caption" in seen.text


def test_a_table_scrolls_in_its_own_box() -> None:
    seen = Seen(table(["a"], [("1",)]))
    assert seen.elements[0][1]["class"] == "scroll"
    assert seen.elements[0][1]["tabindex"] == "0"


def test_numbers_are_set_right_in_head_and_body() -> None:
    seen = Seen(table(["a", Column("b", number=True)], [("1", "2")]))
    assert [attributes.get("class") for name, attributes in seen.elements if name in ("th", "td")] == [
        None,
        "number",
        None,
        "number",
    ]


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError):
        table(["a", "b"], [("1",)])


def test_folded_content_has_its_title() -> None:
    assert folded("More <b>", "x") == "<details><summary>More &lt;b&gt;</summary>x</details>"
