"""Tables as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from residapt.errors import DataError


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a line for each row."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def fill_in(text: str, tables: Mapping[str, str], where: str) -> str:
    """The page with each table between its marks, ``<!-- NAME -->`` and ``<!-- end NAME -->``, replaced."""
    for name, table in tables.items():
        start, end = f"<!-- {name} -->", f"<!-- end {name} -->"
        before, found, rest = text.partition(start)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise DataError(f"'{where}' has no place for the table '{name}': put '{start}' and '{end}' there.")
        text = f"{before}{start}\n{table}{end}{after}"
    return text
