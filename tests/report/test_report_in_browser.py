"""The page in headless Chromium: what no parser can tell."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from residapt.config import load_config, write_config
from residapt.report import write_report
from support.made_up_detection import detections
from support.made_up_run import fifty_layers, make_run

pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HOSTILE = [
    "<script>window.bad = 1</script>",
    "</script><script>window.bad = 2</script>",
    "<img src=x onerror='window.bad = 3'>",
    "\"><b onmouseover='window.bad = 4'>x",
    "<a href='https://example.org'>link</a>",
    "--source",
    "%{x} $y$ &lt; ${z}",
]


@dataclass
class Visit:
    """A page that was opened, and what it said and asked for."""

    page: Any
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(make_run(tmp_path_factory.mktemp("run") / "office"))


def visit(browser: Any, path: Path, *, width: int = 1200, scheme: str = "light") -> Visit:
    seen = Visit(browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme))
    seen.page.on("console", lambda message: seen.console.append(message.text))
    seen.page.on("pageerror", lambda error: seen.console.append(str(error)))
    seen.page.on("request", lambda request: seen.requests.append(request.url))
    seen.page.goto(path.as_uri())
    return seen


OPEN_ALL = "() => { for (const part of document.querySelectorAll('details')) part.open = true; }"
LONGEST = 8_800
"""Pixels on a phone; the page of this run had 17,605 before sections were folded."""


def wait_until(page: Any, expression: str) -> None:
    """Playwright's own way would need eval, which the page's policy forbids."""
    for _ in range(100):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never came true: {expression}")


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark"), (320, "light")])
def test_opens_quietly_draws_all_and_stays_within_the_screen(
    browser: Any, report: Path, width: int, scheme: str
) -> None:
    seen = visit(browser, report, width=width, scheme=scheme)
    assert seen.console == []
    # Chromium asks for embedded pictures as well; those do not leave the page.
    assert [url for url in seen.requests if not url.startswith("data:")] == [report.as_uri()]
    seen.page.evaluate(OPEN_ALL)
    wait_until(seen.page, "Array.from(document.querySelectorAll('.chart')).every(one => one.querySelector('svg'))")
    charts = seen.page.evaluate(
        """() => Array.from(document.querySelectorAll('.chart')).map(chart => {
            const marks = Array.from(chart.querySelectorAll('.scatterlayer path, .barlayer path, .heatmaplayer image'));
            const sizes = marks.map(mark => mark.getBoundingClientRect());
            return {
                width: chart.querySelector('svg.main-svg').getBoundingClientRect().width,
                room: chart.getBoundingClientRect().width,
                marks: sizes.filter(size => size.width > 0 || size.height > 0).length,
            };
        })"""
    )
    assert len(charts) >= 12
    for chart in charts:
        assert chart["marks"] > 0
        assert 200 < chart["width"] <= chart["room"] + 1
    assert seen.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    outside = seen.page.evaluate(
        "() => Array.from(document.querySelectorAll('section > *, .scroll, figure, .command, .card, .tile'))"
        ".filter(one => one.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5).length"
    )
    assert outside == 0
    seen.page.close()


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a network with fifty layers."""
    return write_report(make_run(tmp_path_factory.mktemp("run") / "deep", ranks=fifty_layers()))


def test_a_phone_sees_a_short_page_without_scrolling_sideways(browser: Any, deep: Path) -> None:
    seen = visit(browser, deep, width=390)
    heights = "document.documentElement.scrollHeight"
    assert seen.page.evaluate(heights) <= LONGEST
    cut = (
        "() => Array.from(document.querySelectorAll('.scroll')).filter(one => !one.querySelector('.matrix')"
        " && one.scrollWidth > one.clientWidth + 1).length"
    )
    assert seen.page.evaluate(cut) == 0
    seen.page.evaluate(OPEN_ALL)
    assert seen.page.evaluate(cut) == 0, "of all tables but the confusion matrix no column is cut off"
    assert seen.page.evaluate("document.documentElement.scrollWidth") == 390
    # Every cell says which column it is of, as there is no header row.
    assert seen.page.evaluate("getComputedStyle(document.querySelector('#scores thead')).display") == "none"
    labels = seen.page.evaluate(
        "Array.from(document.querySelectorAll('#scores tbody tr:first-child td')).map(one => one.dataset.label)"
    )
    assert {"before", "after"} <= set(labels)
    seen.page.close()


def test_a_folded_section_opens_by_its_link(browser: Any, report: Path) -> None:
    seen = visit(browser, report, width=390)
    assert not seen.page.evaluate("document.querySelector('#ranks > details').open")
    assert seen.page.locator("#ranks svg.main-svg").count() == 0
    seen.page.locator('nav a[href="#ranks"]').click()
    wait_until(seen.page, "document.querySelector('#ranks .chart svg.main-svg') !== null")
    assert seen.console == []
    seen.page.close()


def test_a_wide_screen_has_everything_open(browser: Any, report: Path) -> None:
    seen = visit(browser, report)
    assert seen.page.evaluate("Array.from(document.querySelectorAll('details.folds')).every(one => one.open)")
    seen.page.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_no_axis_shows_a_tick_twice(browser: Any, tmp_path: Path, width: int) -> None:
    """Also where shares, in whole per cent, would be the same."""
    near = {"source": [0.5, 0.5], "target_before": [0.502, 0.498], "target_after": [0.499, 0.501]}
    run = make_run(tmp_path / "run", classes=["bird", "drone"], frequencies=near)
    with run.metrics.open("a", encoding="utf-8") as file:
        for step in range(0, 1201, 200):
            file.write(f'{{"kind": "accuracy", "step": {step}, "values": {{"webcam": {80 + step / 2000}}}}}\n')
    seen = visit(browser, write_report(run), width=width)
    seen.page.evaluate(OPEN_ALL)
    wait_until(seen.page, "Array.from(document.querySelectorAll('.chart')).every(one => one.querySelector('svg'))")
    ticks = seen.page.evaluate(
        """() => Array.from(document.querySelectorAll('.chart')).flatMap(chart => ['.xtick', '.ytick'].map(kind =>
            Array.from(chart.querySelectorAll(kind)).map(one => one.textContent).filter(text => text)))"""
    )
    assert len(ticks) > 20
    for axis in ticks:
        assert len(axis) == len(set(axis)), axis
    seen.page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_is_that_of_wcag_aa(browser: Any, report: Path, scheme: str) -> None:
    """4.5 for all text on the page, 3 for what charts draw."""
    seen = visit(browser, report, scheme=scheme)
    found = seen.page.evaluate(CONTRAST)
    assert len(found) > 300
    low = [one for one in found if one["ratio"] < 4.5]
    assert low == []
    colors = seen.page.evaluate(
        "() => ['surface', 'source', 'target', 'before', 'muted', 'accent', "
        "...[1, 2, 3, 4, 5, 6].map(n => 'series-' + n)]"
        ".map(name => getComputedStyle(document.body).getPropertyValue('--' + name).trim())"
    )
    assert all(contrast(color, colors[0]) >= 3 for color in colors[1:]), colors
    seen.page.close()


CONTRAST = """() => {
    const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const numbers = text => text.match(/[\\d.]+/g).map(Number);
    const light = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
    const behind = one => {
        for (; one; one = one.parentElement) {
            const color = numbers(getComputedStyle(one).backgroundColor);
            if (color.length < 4 || color[3] > 0) return color;
        }
        return [255, 255, 255];
    };
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) {
        const node = walker.currentNode, one = node.parentElement;
        if (!node.textContent.trim() || one.closest('script, style, svg, noscript')) continue;
        const [a, b] = [light(numbers(getComputedStyle(one).color)), light(behind(one))];
        found.push({text: node.textContent.slice(0, 40), ratio: (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)});
    }
    return found;
}"""


def contrast(first: str, second: str) -> float:
    def light(color: str) -> float:
        channels = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(first), light(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_a_page_while_it_is_read(browser: Any, report: Path) -> None:
    """Pictures are shown, commands can be copied, colours and sizes follow the reader."""
    seen = visit(browser, report)
    assert seen.page.evaluate("Array.from(document.images).map(image => image.naturalWidth)") == [96] * 29
    seen.page.locator("#use button.copy").first.click()
    wait_until(seen.page, "document.querySelector('#use button.copy').textContent === 'Copied'")
    look = (
        "() => [getComputedStyle(document.body).backgroundColor, "
        "document.querySelector('.scatterlayer path.js-line').style.stroke, "
        "document.querySelector('.xtick text').style.fill]"
    )
    light = seen.page.evaluate(look)
    seen.page.emulate_media(color_scheme="dark")
    wait_until(seen.page, f"document.querySelector('.xtick text').style.fill !== '{light[2]}'")
    assert all(one != other for one, other in zip(light, seen.page.evaluate(look), strict=True))
    seen.page.set_viewport_size({"width": 390, "height": 800})
    seen.page.evaluate(OPEN_ALL)
    wait_until(seen.page, "document.querySelector('.chart svg').getBoundingClientRect().width < 380")
    assert seen.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert seen.console == []
    seen.page.close()


def test_names_from_outside_stay_text(browser: Any, tmp_path: Path) -> None:
    run = make_run(tmp_path / "<img src=x onerror='window.bad=6'>", classes=HOSTILE)
    summary = run.summary.read_text(encoding="utf-8")
    run.summary.write_text(summary.replace("camera 2/", "<script>window.bad = 7<\\/script>"), encoding="utf-8")
    write_config(load_config(None, ["model.spec='<script>window.bad = 8</script>'"]), run.config)
    with run.metrics.open("a", encoding="utf-8") as file:
        file.write('{"kind": "note", "step": 5, "text": "<script>window.bad = 9</script>"}\n')
        file.write('{"kind": "step", "step": 5, "values": {"</script><b>loss": 1.0}}\n')
    seen = visit(browser, write_report(run))
    assert seen.console == []
    assert seen.page.evaluate("window.bad") is None
    # Each figure has one script with its data; Plotly and the page's own come on top.
    assert seen.page.locator("script").count() == seen.page.locator("figure").count() + 2
    assert seen.page.locator(".chart a, .card b, #health b, img:not(.picture)").count() == 0
    labels = seen.page.locator("#classes .ytick").all_text_contents()
    assert any(label.startswith("<script>win") for label in labels)
    assert "--source" in labels
    assert seen.page.locator("h1").inner_text() == "<img src=x onerror='window.bad=6'>"
    assert "<script>window.bad = 8</script>" in seen.page.locator("#settings").inner_text()
    seen.page.close()


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_the_precision_recall_curve(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    run = make_run(tmp_path / "run", classes=["bird", "drone"], detections=detections())
    seen = visit(browser, write_report(run), width=width, scheme=scheme)
    assert seen.console == []
    chart = seen.page.locator("#detection .chart")
    assert chart.locator(".scatterlayer path.js-line").count() == 2
    assert chart.locator(".xtitle").text_content() == "recall"
    assert chart.locator(".ytitle").text_content() == "precision"
    assert [text.split(",")[0] for text in chart.locator(".legendtext").all_text_contents()] == [
        "source only",
        "adapted",
    ]
    assert seen.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    seen.page.close()


def test_a_run_that_has_not_finished(browser: Any, tmp_path: Path) -> None:
    seen = visit(browser, write_report(make_run(tmp_path / "run", finished=False)), width=390)
    assert seen.console == []
    assert "has not finished" in seen.page.locator("#verdict").inner_text()
    assert seen.page.locator(".chart svg.main-svg").count() > 0
    seen.page.close()
