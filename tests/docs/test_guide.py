"""What keeps README and guide short, honest and whole."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from residapt.config import read_toml

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from results_table import BEGIN, END, demonstration, results, with_results  # noqa: E402

GUIDE = sorted((ROOT / "docs" / "guide").glob("*.md"))
IMAGES = sorted((ROOT / "docs" / "images").glob("*"))
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", GUIDE, ids=lambda page: page.name)
def test_a_page_of_the_guide_is_short(page: Path) -> None:
    """Its commands and code are counted too, as ``wc -w`` does."""
    assert len(page.read_text(encoding="utf-8").split()) <= 900


def test_pictures_are_small_used_and_explained() -> None:
    assert {image.suffix for image in IMAGES} <= {".png", ".svg"}
    assert all(image.stat().st_size < 300_000 for image in IMAGES)
    assert sum(image.stat().st_size for image in IMAGES) < 2_000_000
    texts = [README, *(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))]
    used = {Path(path).name: alt for text in texts for alt, path in re.findall(r"!\[(.*?)\]\((.*?)\)", text)}
    assert {image.name for image in IMAGES} <= set(used)
    assert all(len(alt) > 15 for name, alt in used.items() if (ROOT / "docs" / "images" / name).exists())


def test_pictures_need_nothing_from_elsewhere() -> None:
    drawn = [image.read_text(encoding="utf-8") for image in IMAGES if image.suffix == ".svg"]
    assert drawn
    assert not [
        address for text in drawn for address in re.findall(r"https?://[^\s\"']+", text) if "w3.org" not in address
    ]
    assert all("<script" not in text for text in drawn)


def test_links_of_the_readme_lead_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)", README) if not link.startswith("https://")]
    assert len(links) > 8
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_table_of_results_is_made_from_records() -> None:
    """All its rows are; there may be newer records that it does not show yet."""
    shown = README.partition(BEGIN)[2].partition(END)[0]
    rows = [line for line in shown.splitlines() if line.startswith("| ") and "shift" not in line]
    assert rows
    assert set(rows) <= set(results().splitlines())
    assert set(demonstration()) <= set(rows)
    assert with_results(README).count(BEGIN) == 1


def test_badges_are_true() -> None:
    project = read_toml(ROOT / "pyproject.toml")["project"]
    versions = [line.rpartition(" ")[2] for line in project["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert f"python-{versions[0]}_to_{versions[-1]}-" in README
    assert f"licence-{project['license']}-" in README
    mypy = read_toml(ROOT / "pyproject.toml")["tool"]["mypy"]
    assert mypy["strict"] is True
