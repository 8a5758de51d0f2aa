"""The pages that are made from the program name everything there is, and the navigation leads to every page."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import typer

import residapt
from residapt.cli.app import app
from residapt.cli.commands import register
from residapt.config import describe_config, load_config

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from docs_pages import generated_pages  # noqa: E402

PAGES = generated_pages()
GUIDE = sorted((ROOT / "docs" / "guide").glob("*.md"))


def test_every_setting_has_its_section() -> None:
    page = PAGES["reference/settings.md"]
    assert re.findall(r"^### `(.*)`$", page, flags=re.M) == sorted(
        (key for key, _, _ in describe_config(load_config())), key=lambda key: key.count(".") > 0
    )
    assert "a value" not in page  # every kind of value has a name


def test_every_command_and_option_is_there() -> None:
    register()
    page = PAGES["reference/commands.md"]
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        if hasattr(command, "commands"):  # groups of other packages
            continue
        section = page.partition(f"## `residapt {name}`\n")[2].partition("\n## ")[0]
        options = [option for each in command.params for option in each.opts if option.startswith("--")]
        assert section
        assert all(option in section for option in options if option != "--help")


def test_every_public_name_is_on_one_page() -> None:
    found = [line for name, page in PAGES.items() if "/api/" in name for line in page.splitlines() if line[:3] == ":::"]
    assert len(found) == len(set(found))
    names = {line.rpartition(".")[2] for line in found}
    packages = {"data", "losses", "methods", "models", "rank"}
    assert set(residapt.__all__) - packages - {"__version__"} <= names
    for package in packages - {"data"}:
        assert set(getattr(residapt, package).__all__) <= names | {"NATIVE"}


def test_the_navigation_leads_to_every_page() -> None:
    """And nowhere else: a page without a way to it is not read."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    linked = re.findall(r": (\S+\.md)$", text.partition("\nnav:")[2], flags=re.M)
    files = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(linked) == sorted(files | set(PAGES))


def test_formulas_need_no_script() -> None:
    pytest.importorskip("griffe", reason="needs the extra docs")
    pytest.importorskip("latex2mathml", reason="needs the extra docs")
    from docs_docstrings import readable

    text = readable("Of :class:`~a.B` with :math:`x`.\n\n.. math:: y = 1,\n    z = 2\n\nEnd.\n")
    assert ":class:" not in text
    assert text.count("<math") == 2
    assert "\\" not in text
    assert text.rstrip().endswith("End.")


def test_cells_of_a_wide_table_name_their_column() -> None:
    """A telephone shows its rows as blocks of lines; narrow tables stay as they are."""
    pytest.importorskip("mkdocs", reason="needs the extra docs")
    from docs_hooks import on_page_content

    head = "<table><thead><tr><th>a</th><th>b</th>{}</tr></thead><tbody><tr><td>1</td>"
    narrow = head.format("") + "<td><code>x</code> or 2</td></tr></tbody></table>"
    assert on_page_content(narrow) == narrow
    wide = on_page_content(
        head.format("<th>c</th>") + '<td><code>x</code> or 2</td><td align="right">3</td></tr></tbody></table>'
    )
    cells = re.findall(r'<td data-label="(.)"([^>]*)><div>(.*?)</div></td>', wide)
    assert cells == [("a", "", "1"), ("b", "", "<code>x</code> or 2"), ("c", ' align="right"', "3")]
    assert wide.startswith('<div class="wide">')
