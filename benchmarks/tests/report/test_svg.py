from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from residapt_bench.report.svg import HEIGHT, WIDTH, Line, Panel, nice_ticks, svg_chart

SVG = "{http://www.w3.org/2000/svg}"


@given(low=st.floats(-1e6, 1e6), span=st.floats(1e-6, 1e6))
def test_ticks_are_few_and_hold_the_values_between_them(low: float, span: float) -> None:
    ticks = nice_ticks(low, low + span)
    tolerance = 1e-6 * (abs(low) + span)
    assert ticks[0] <= low + tolerance
    assert ticks[-1] >= low + span - tolerance
    assert 2 <= len(ticks) <= 8
    steps = [b - a for a, b in itertools.pairwise(ticks)]
    assert max(steps) - min(steps) <= tolerance


def test_ticks_of_a_single_value() -> None:
    assert nice_ticks(3.0, 3.0)[0] <= 3.0 <= nice_ticks(3.0, 3.0)[-1]


def circles(picture: str) -> list[tuple[float, float]]:
    found = ElementTree.fromstring(picture).iter(f"{SVG}circle")
    return [(float(c.get("cx", "")), float(c.get("cy", ""))) for c in found]


@pytest.mark.parametrize(("scale", "x"), [("log", [0.01, 0.1, 1.0]), ("linear", [0.0, 1.0, 2.0])])
def test_equal_steps_on_the_scale_are_equal_in_the_picture(scale: str, x: list[float]) -> None:
    panel = Panel([Line("a", x, [1.0, 3.0, 2.0])], "x", "y", scale=scale)  # type: ignore[arg-type]
    (x0, y0), (x1, y1), (x2, y2) = circles(svg_chart([panel]))
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y1 < y2 < y0
    assert y0 - y2 == pytest.approx(y2 - y1, abs=0.2)


def test_everything_lies_within_the_picture() -> None:
    lines = [Line(f"method {i}", [0, 10, 200], [0.1, 0.5, 0.9], [0.05, 0.1, 0.3]) for i in range(6)]
    picture = svg_chart([Panel(lines, "labels", "AP", scale="log1p", level=(1.5, "level"))] * 4, columns=2)
    root = ElementTree.fromstring(picture)
    assert int(root.get("width", "")) == 2 * WIDTH
    assert int(root.get("height", "")) > 2 * HEIGHT
    for line in (element for group in root.iter(f"{SVG}g") for element in group.iter(f"{SVG}line")):
        assert 0 <= float(line.get("y1", "")) <= HEIGHT
        assert 0 <= float(line.get("x2", "")) <= 2 * WIDTH


def test_names_are_text_and_stand_once_in_the_legend() -> None:
    lines = [Line("a < b & c", [1, 2], [1, 2]), Line("a < b & c", [1, 2], [2, 1], dots=False)]
    picture = svg_chart([Panel(lines, "x", "y", "title")])
    assert len(re.findall("a &lt; b &amp; c", picture)) == 1
    assert len(circles(picture)) == 2
