"""Hooks of MkDocs: the pages made from the program itself, and tables that a telephone can show."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from docs_pages import generated_pages
from mkdocs.structure.files import File, Files

TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
ROW = re.compile(r"<tr>.*?</tr>", re.DOTALL)
HEAD = re.compile(r"<th[^>]*>(.*?)</th>", re.DOTALL)
CELL = re.compile(r"<td([^>]*)>(.*?)</td>", re.DOTALL)
NARROW = 2
"""Columns that fit on a telephone; a row with more becomes a block of lines there, each with its column's name."""


def on_files(files: Files, *, config: Any) -> Files:
    """Add the generated pages, as if they were files."""
    for path, text in generated_pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_content(html: str, **_: Any) -> str:
    """Name the column in every cell of a wide table."""
    return TABLE.sub(_labelled, html)


def _labelled(found: re.Match[str]) -> str:
    table = found[0]
    names = [re.sub(r"<[^>]*>", "", head).strip() for head in HEAD.findall(table)]
    if len(names) <= NARROW:
        return table

    def row(line: re.Match[str]) -> str:
        left = iter(names)
        return CELL.sub(lambda cell: f'<td data-label="{next(left, "")}"{cell[1]}><div>{cell[2]}</div></td>', line[0])

    # Inside a div of its own class: the theme's styles are for tables without a class.
    return f'<div class="wide">{ROW.sub(row, table)}</div>'
