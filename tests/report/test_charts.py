from __future__ import annotations

import json
import re
from typing import Any

from residapt.report.charts import Series, bar_chart, dot_chart, label, line_chart, scatter_chart
from support.page_reader import Seen


def spec_of(chart: str) -> Any:
    found = re.search(r'<script type="application/json" class="chart-data">(.*?)</script>', chart, re.S)
    assert found
    return json.loads(found[1])


def test_labels_cannot_become_markup_and_keep_both_ends() -> None:
    assert label("<b>&</b> $x$") == "&lt;b&gt;&amp;&lt;/b&gt; &#36;x&#36;"
    assert label("abcdefghij", longest=7) == "abc…hij"
    assert label("abcdefg", longest=7) == "abcdefg"


def test_a_script_in_a_name_stays_inside_the_data() -> None:
    hostile = "</script><script>alert(1)</script>"
    for chart in (
        line_chart(hostile, [Series(hostile, [1], [2], "--a")], caption=hostile),
        bar_chart(hostile, [hostile], [Series(hostile, [1], [], "--a")]),
        dot_chart(hostile, [hostile], [Series(hostile, [1], [], "--a")]),
        scatter_chart(hostile, [Series(hostile, [1], [2], "--a")]),
    ):
        assert [name for name, _ in Seen(chart).elements if name == "script"] == ["script"]
        assert spec_of(chart)["data"][0]["name"] == label(hostile)


def test_equal_names_keep_rows_of_their_own() -> None:
    rows = ["a" * 40 + "x" + "b" * 40, "a" * 40 + "y" + "b" * 40]
    chart = spec_of(bar_chart("ranks", rows, [Series("after", [3, 5], [], "--a")]))
    assert chart["data"][0]["y"] == chart["layout"]["yaxis"]["tickvals"] == [0, 1]
    assert len(set(chart["layout"]["yaxis"]["ticktext"])) == 1
    assert chart["data"][0]["customdata"] == rows


def test_a_missing_value_is_a_gap() -> None:
    chart = spec_of(line_chart("loss", [Series("class", [1, 2], [0.5, float("nan")], "--a")]))
    assert chart["data"][0]["y"] == [0.5, None]


def test_a_single_point_is_drawn_as_a_point() -> None:
    assert spec_of(line_chart("loss", [Series("class", [1], [2.0], "--a")]))["data"][0]["mode"] == "markers"


def test_charts_with_given_ranges_have_equal_axes() -> None:
    chart = spec_of(scatter_chart("before", [Series("source", [1], [2], "--a")], ranges=((0, 1), (2, 3))))
    assert chart["layout"]["xaxis"]["range"] == [0, 1]
    assert chart["layout"]["yaxis"]["range"] == [2, 3]
