"""The pictures of README and guide: ``python scripts/make_pictures.py [--run RUN] [NAME ...]``.

A real run is made first, the demonstration. Chromium takes pictures of its report; the terminal and the idea are drawn
as SVG. Timings are on some of them, so that the machine should be quiet.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

sys.path.insert(0, str(Path(__file__).parent))

from idea_picture import idea

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
DEMO = "residapt demo --seed 0 --threads 1"
SECTIONS = {
    "changed": "report-changed",
    "health": "report-health",
    "ranks": "report-ranks",
    "overlap": "report-overlap",
}
WIDTH = 1100
TERMINALS = {
    "doctor": "residapt doctor",
    "eval": "residapt eval run-demo run-demo-images/held-out",
    "inspect": "residapt inspect run-demo",
    "suggest": "residapt suggest run-demo -n 10 -o few.csv",
}
"""Commands whose output is shown, run beside the demonstration's run."""


def make_run(place: Path) -> Path:
    """The demonstration's run, with what it printed in ``printed.txt``."""
    command = [sys.executable, "-m", *DEMO.split(), "--quiet"]
    done = subprocess.run(command, cwd=place, check=True, capture_output=True, text=True)
    printed = done.stdout.replace(f"{place.resolve()}/", "").replace(f"{place}/", "")
    (place / "run-demo" / "printed.txt").write_text(printed, encoding="utf-8")
    return place / "run-demo"


def terminal(command: str, text: str, path: Path) -> None:
    """What a terminal shows, as SVG without a font from elsewhere."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=104, file=nowhere, force_terminal=True)
        console.print(Text(f"$ {command}", style="bold"))
        console.print(Text(text.strip()), soft_wrap=False)
        svg = console.export_svg(title="residapt", theme=MONOKAI, unique_id="residapt")
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    path.write_text(re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL), encoding="utf-8")


def small(path: Path) -> None:
    """Few colours: a page has no more."""
    Image.open(path).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)


def photograph(run: Path) -> None:
    """The report as one sees it first, and its sections."""
    with sync_playwright() as start:
        chromium = start.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        page.goto((run / "report.html").absolute().as_uri())
        page.wait_for_timeout(1500)
        _shot(page, "report", full_page=False)
        for section, name in SECTIONS.items():
            element = page.locator(f"section#{section}")
            if element.count():
                element.scroll_into_view_if_needed()
                page.wait_for_timeout(300)
                box = element.bounding_box()
                element.screenshot(path=IMAGES / f"{name}.png", animations="disabled")
                if box and box["height"] > 900:
                    image = Image.open(IMAGES / f"{name}.png")
                    image.crop((0, 0, image.width, 900)).save(IMAGES / f"{name}.png")
                small(IMAGES / f"{name}.png")
        chromium.close()


def _shot(page: Any, name: str, **options: Any) -> None:
    page.screenshot(path=IMAGES / f"{name}.png", animations="disabled", **options)
    small(IMAGES / f"{name}.png")


def shown(command: str, place: Path) -> str:
    """What a command prints as its result; notes and progress are left out."""
    environment = {**os.environ, "COLUMNS": "100"}
    words = [sys.executable, "-m", *command.split()]
    done = subprocess.run(words, cwd=place, capture_output=True, text=True, check=True, env=environment)
    return done.stdout.replace(f"{place.resolve()}/", "").replace(f"{place}/", "")


def main() -> None:
    """Make all pictures, or those that are named."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--run", type=Path, help="A run that was made this way before; made now if left out.")
    every = ["idea", "run", "report", *TERMINALS]
    options.add_argument("names", nargs="*", help=f"Some of {', '.join(every)}; all if left out.")
    given = options.parse_args()
    wanted = given.names or every
    if unknown := set(wanted) - set(every):
        options.error(f"unknown: {', '.join(sorted(unknown))}")
    IMAGES.mkdir(exist_ok=True)
    if "idea" in wanted:
        (IMAGES / "idea.svg").write_text(idea(), encoding="utf-8")
    with tempfile.TemporaryDirectory() as place:
        run = given.run or make_run(Path(place))
        if "run" in wanted:
            result = (run / "printed.txt").read_text(encoding="utf-8").partition("Now open")[0]
            terminal(DEMO, result, IMAGES / "run.svg")
        for name in (name for name in TERMINALS if name in wanted):
            terminal(TERMINALS[name], shown(TERMINALS[name], run.parent), IMAGES / f"{name}.svg")
        if "report" in wanted:
            photograph(run)


if __name__ == "__main__":
    main()
