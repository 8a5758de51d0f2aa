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
from support.made_up_run import make_run

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
    charts = seen.page.evaluate(
        """() => Array.from(document.querySelectorAll('.chart')).map(chart => {
            const marks = Array.from(chart.querySelectorAll('.scatterlayer path, .barlayer path'));
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


def test_a_page_while_it_is_read(browser: Any, report: Path) -> None:
    """Pictures are shown, commands can be copied, colours and sizes follow the reader."""
    seen = visit(browser, report)
    assert seen.page.evaluate("Array.from(document.images).map(image => image.naturalWidth)") == [96] * 12
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
        file.write('{"kind": "notice", "step": 5, "text": "<script>window.bad = 9</script>"}\n')
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
