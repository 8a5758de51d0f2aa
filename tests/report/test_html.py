from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from residapt.report.html import Html, embed_json, escape, join, tag
from support.page_reader import Seen

# The parser turns carriage returns and NUL into other characters, as browsers do.
words = st.text(st.characters(exclude_characters="\r\x00", exclude_categories=["Cs"]))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner) | st.dictionaries(words, inner),
    max_leaves=8,
)


@given(words)
def test_any_text_stays_text_in_an_element_and_in_an_attribute(text: str) -> None:
    seen = Seen(tag("p", text, title=text))
    assert seen.text == text
    assert seen.elements == [("p", {"title": text})]


@given(values)
def test_json_survives_and_cannot_end_its_element(data: Any) -> None:
    text = embed_json(data)
    assert json.loads(text) == data
    assert not set("<>&") & set(text)
    assert "\u2028" not in text


def test_numbers_that_are_not_finite_become_null() -> None:
    assert json.loads(embed_json({"a": [1.0, float("nan"), (float("-inf"), 2)]})) == {"a": [1.0, None, [None, 2]]}


def test_html_is_not_escaped_twice() -> None:
    inner = tag("b", "a & b")
    assert tag("p", inner, "<i>") == "<p><b>a &amp; b</b>&lt;i&gt;</p>"
    assert escape(Html("<br>")) == "<br>"
    assert join(["a", inner], ", ") == "a, <b>a &amp; b</b>"
    assert isinstance(join(["a"]), Html)


def test_attributes() -> None:
    assert tag("img", src="x", alt=None, hidden=True, draggable=False) == '<img src="x" hidden>'
    assert tag("div", class_="a", data_kind='"') == '<div class="a" data-kind="&quot;"></div>'
