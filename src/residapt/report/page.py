"""One self-contained page: style, scripts and data are inside, and the page forbids itself every request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from residapt.report.html import Html, join, tag
from residapt.storage.atomic import atomic_file

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)
"""Content security policy: what is inside may be used, nothing may be fetched or sent."""


@dataclass(frozen=True)
class Section:
    """A titled part of a page; ``anchor`` is its place in the table of contents."""

    anchor: str
    title: str
    body: Html
    short: str = ""
    """Its name in the table of contents; empty leaves it out."""
    folds: bool = False
    """Whether a narrow screen shows its title only, until it is opened."""


def render_page(title: str, header: object, sections: Sequence[Section]) -> Html:
    """The whole document."""
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("link", rel="icon", href="data:,"),
        tag("style", _raw(_asset("page.css"))),
    ]
    body = [tag("header", header, _contents(sections)), tag("main", *map(_render, sections)), *_scripts(sections)]
    return Html("<!doctype html>\n" + tag("html", tag("head", *head), tag("body", *body), lang="en"))


def _render(section: Section) -> Html:
    title = tag("h2", section.title)
    if not section.folds:
        return tag("section", title, section.body, id=section.anchor)
    folding = tag("details", tag("summary", title), section.body, class_="folds", open=True)
    return tag("section", folding, id=section.anchor)


def _contents(sections: Sequence[Section]) -> Html:
    links = [tag("a", section.short, href=f"#{section.anchor}") for section in sections if section.short]
    return tag("nav", *links, aria_label="contents")


def _scripts(sections: Sequence[Section]) -> list[Html]:
    """Plotly only where there is something to draw: it is most of the page's size."""
    own = tag("script", _raw(_asset("page.js")))
    if not any('class="chart-data"' in section.body for section in sections):
        return [own]
    # Imported late: pages without charts do not need Plotly.
    from plotly.offline import get_plotlyjs

    hint = tag("noscript", tag("p", "The charts need JavaScript; all numbers are in the tables.", class_="muted"))
    return [hint, tag("script", _raw(get_plotlyjs())), own]


def _raw(text: str) -> Html:
    """The package's own scripts and styles, which must not end their element early."""
    return Html(text.replace("</script", "<\\/script").replace("</style", "<\\/style"))


def _asset(name: str) -> str:
    return files("residapt.report").joinpath(name).read_text(encoding="utf-8")


def write_page(path: Path, document: Html) -> None:
    """Write the page whole or not at all: a reader never meets half a page."""
    with atomic_file(path, overwrite=True) as partial:
        partial.write_text(document, encoding="utf-8")


def note(text: object, kind: str = "") -> Html:
    """A boxed note; ``kind`` is good, bad, warning or empty."""
    return tag("div", text, class_=f"note {kind}".strip())


def command(text: str) -> Html:
    """A command with a button that copies it."""
    return tag(
        "div", tag("pre", tag("code", text)), tag("button", "Copy", type="button", class_="copy"), class_="command"
    )


def badge(text: str, kind: str = "") -> Html:
    """A short stamp beside a value."""
    return tag("span", text, class_=f"badge {kind}".strip())


def tiles(items: Sequence[tuple[str, object, object]]) -> Html:
    """Key figures: (name, value, comment)."""
    return tag(
        "dl",
        join(
            tag(
                "div",
                tag("dt", name),
                tag("dd", value),
                tag("dd", comment, class_="comment") if comment else "",
                class_="tile",
            )
            for name, value, comment in items
        ),
        class_="tiles",
    )
