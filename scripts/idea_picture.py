"""The picture of the idea: two streams, the transform between their weights, and what is learned."""

from __future__ import annotations

from html import escape

INK, BLUE, ORANGE, GREY, PAPER = "#1f2937", "#2f5fb3", "#b45309", "#6b7280", "#ffffff"
STYLE = "font-family: system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"


def box(x: int, y: int, width: int, lines: list[str], color: str, height: int = 56) -> str:
    """A rounded box with centred lines."""
    first = y + height / 2 + 5 - 9 * (len(lines) - 1)
    text = "".join(
        f'<text x="{x + width / 2}" y="{first + 18 * place}" text-anchor="middle" font-size="15" fill="{INK}">'
        f"{escape(line)}</text>"
        for place, line in enumerate(lines)
    )
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{PAPER}" stroke="{color}" '
        f'stroke-width="2"/>{text}'
    )


def arrow(x1: int, y1: int, x2: int, y2: int, color: str = GREY) -> str:
    """A line with a head."""
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{color}" stroke-width="2" marker-end="url(#head)"/>'


def note(x: int, y: int, text: str, color: str = GREY) -> str:
    """Small centred text."""
    return f'<text x="{x}" y="{y}" text-anchor="middle" font-size="13" fill="{color}">{escape(text)}</text>'


def idea() -> str:
    """The picture as SVG; it has its own white ground, so that it can be read in dark mode too."""
    parts = [
        box(20, 30, 180, ["labelled images", "of the source"], BLUE),
        box(300, 30, 190, ["your network, Θs"], BLUE),
        box(590, 30, 110, ["logits"], BLUE),
        box(20, 230, 180, ["unlabelled images", "of the target"], ORANGE),
        box(300, 230, 190, ["the same, with Θt"], ORANGE),
        box(590, 230, 110, ["logits"], ORANGE),
        box(775, 117, 165, ["domain classifier", "cannot tell them", "apart"], GREY, 82),
        arrow(200, 58, 294, 58),
        arrow(490, 58, 584, 58),
        arrow(200, 258, 294, 258),
        arrow(490, 258, 584, 258),
        arrow(700, 58, 800, 111),
        arrow(700, 258, 800, 205),
        arrow(395, 86, 395, 224, ORANGE),
        f'<rect x="225" y="128" width="340" height="54" rx="8" fill="#fff7ed" stroke="{ORANGE}"/>',
        f'<text x="395" y="151" text-anchor="middle" font-size="16" fill="{INK}">'
        "Θt = Θs + B₁ σ(A₁ᵀ Θs A₂ + D) B₂ᵀ</text>",
        note(395, 172, "learned for each layer; its rank shrinks by itself", ORANGE),
        note(645, 20, "right class", BLUE),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 310" width="960" height="310" role="img" '
        f'style="{STYLE}"><title>Two streams: a low-rank transform turns the source network\'s weights into those '
        "for the target, until a domain classifier cannot tell their outputs apart</title>"
        f'<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M0 0 10 5 0 10z" fill="{GREY}"/></marker></defs>'
        f'<rect width="960" height="310" rx="12" fill="{PAPER}"/>{"".join(parts)}</svg>\n'
    )
