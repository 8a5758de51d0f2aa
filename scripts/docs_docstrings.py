"""An extension of Griffe: the formulas and roles of the docstrings as HTML that needs no script and no network."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe
from latex2mathml.converter import convert

BLOCK = re.compile(r"^(?P<indent>[ \t]*)\.\. math::(?P<body>.*(?:\n(?P=indent)[ \t]+\S.*)*)", re.MULTILINE)
INLINE = re.compile(r":math:`([^`]*)`")
EXAMPLE = re.compile(r"^([ \t]*)Example:[ \t]*$", re.MULTILINE)
ROLE = re.compile(r":(?:class|func|meth|mod|attr|data):`~?\.?([^`]*)`")


def readable(text: str) -> str:
    """A docstring with formulas as MathML and references as code."""

    def block(found: re.Match[str]) -> str:
        formula = convert(textwrap.dedent(found["body"]).strip(), display="block")
        return f'\n{found["indent"]}<div class="formula">{formula}</div>\n'

    text = BLOCK.sub(block, text)
    text = EXAMPLE.sub(r"\1Examples:", text)  # the section that Griffe shows as code
    text = INLINE.sub(lambda found: convert(found[1]), text)
    return ROLE.sub(lambda found: f"`{found[1]}`", text)


class Docstrings(griffe.Extension):
    """Applied to every docstring that is read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Replace the text of the docstring."""
        if obj.docstring is not None:
            obj.docstring.value = readable(obj.docstring.value)
