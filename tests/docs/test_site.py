"""The documentation as a reader sees it, in Chromium: nothing to scroll sideways, every text legible."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mkdocs", reason="needs the extra docs")
playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
CHROMIUM = "/usr/bin/chromium"


WIDER = """() => [...document.querySelectorAll('.md-content *')]
  .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
  .filter(e => e.textContent.trim() && !e.closest('.headerlink, math'))
  .map(e => e.tagName + ': ' + e.textContent.slice(0, 60))"""
SCROLLS = "() => document.documentElement.scrollWidth > document.documentElement.clientWidth"
CONTRAST = """() => {
  const context = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = color => { context.clearRect(0, 0, 1, 1); context.fillStyle = color; context.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255]; };
  const over = (top, under) => [0, 1, 2].map(i => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const light = c => c.slice(0, 3).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = e => { const own = rgba(getComputedStyle(e).backgroundColor);
    return own[3] === 1 ? own : over(own, e.parentElement ? behind(e.parentElement) : [255, 255, 255, 1]); };
  const found = {};
  const walker = document.createTreeWalker(document.querySelector('.md-content'), NodeFilter.SHOW_TEXT);
  for (let node; node = walker.nextNode();) {
    const e = node.parentElement, style = getComputedStyle(e);
    if (!node.textContent.trim() || !e.getClientRects().length || style.visibility === 'hidden' ||
        e.closest('.headerlink, .md-clipboard, [hidden]')) continue;
    const under = behind(e), text = over(rgba(style.color), under);
    const [a, b] = [light(text), light(under)].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05), size = parseFloat(style.fontSize);
    if (ratio < (size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5))
      found[`${style.color} on ${under}: ${ratio.toFixed(2)}`] = e.textContent.slice(0, 40);
  }
  return found;
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation, built as ``make docs`` builds it."""
    out = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-q",
        "-f",
        str(ROOT / "mkdocs.yml"),
        "-d",
        str(out),
    ]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return out


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not os.path.exists(CHROMIUM):
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as start:
        chromium = start.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def problems(page: Any, file: Path) -> dict[str, Any]:
    page.goto(file.as_uri())
    return {
        name: found
        for name, script in {"scrolls": SCROLLS, "wider": WIDER, "contrast": CONTRAST}.items()
        if (found := page.evaluate(script))
    }


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")])
def test_every_page_is_legible(site: Path, browser: Any, width: int, scheme: str) -> None:
    page = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    pages = sorted(file for file in site.rglob("*.html") if file.name != "404.html")
    assert len(pages) > 30
    found = {str(file.relative_to(site)): bad for file in pages if (bad := problems(page, file))}
    assert not found
    assert not [url for url in requested if not url.startswith(("file:", "data:", "blob:"))]
    page.close()
