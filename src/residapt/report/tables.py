"""Tables; on a narrow screen each row becomes a paragraph of labelled values, so that no column is cut off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from residapt.report.html import Html, join, tag


@dataclass(frozen=True)
class Column:
    """One column: its title, and whether it holds numbers (set right, in figures of equal width)."""

    title: str
    number: bool = False
    wide: bool = False
    """Long text, which may wrap."""

    @property
    def kind(self) -> str | None:
        """The CSS class of its cells."""
        return " ".join(name for name, on in (("number", self.number), ("wide", self.wide)) if on) or None


def table(
    columns: Sequence[Column | str],
    rows: Iterable[Sequence[object]],
    *,
    caption: str | None = None,
    compact: bool = False,
    matrix: bool = False,
) -> Html:
    """A table; cells are escaped unless they are HTML.

    ``compact`` keeps it as narrow as its content. A ``matrix`` keeps its columns on a narrow screen, where it scrolls
    in its own box.
    """
    known = [column if isinstance(column, Column) else Column(column) for column in columns]
    head = tag("tr", *(tag("th", column.title, scope="col", class_=column.kind) for column in known))
    body = [
        tag(
            "tr",
            *(
                tag("td", cell, class_=column.kind, data_label=column.title or None)
                for column, cell in zip(known, row, strict=True)
            ),
        )
        for row in rows
    ]
    whole = tag(
        "table",
        tag("thead", head),
        tag("tbody", join(body)),
        class_="compact" if compact else "matrix" if matrix else None,
    )
    # Focusable, so that it can be scrolled with the keyboard alone; the caption stays when the table moves.
    box = tag("div", whole, class_="scroll", tabindex=0, role="region", aria_label=caption or "table")
    return join([tag("p", caption, class_="caption") if caption else "", box])


def folded(title: str, *children: object) -> Html:
    """Something long, shown when opened."""
    return tag("details", tag("summary", title), *children)
