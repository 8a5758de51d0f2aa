"""HTML that is escaped by default: plain text becomes text, only :class:`Html` goes in as it is."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable
from typing import Any

VOID = frozenset({"br", "img", "meta", "link", "hr"})


class Html(str):
    """Text that is HTML already; everything else is escaped when it enters an element."""

    __slots__ = ()


def escape(value: object) -> Html:
    """Any value as text that cannot become markup; :class:`Html` stays as it is."""
    return value if isinstance(value, Html) else Html(html.escape(str(value), quote=True))


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """An element. Attributes: ``class_`` for class, ``data_x`` for data-x, True for a bare one, None leaves it out."""
    written = "".join(
        _attribute(key, value) for key, value in attributes.items() if value is not None and value is not False
    )
    if name in VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{join(children)}</{name}>")


def _attribute(key: str, value: object) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(value)}"'


def join(parts: Iterable[object], separator: str = "") -> Html:
    """Parts one after the other, each escaped unless it is HTML."""
    return Html(separator.join(escape(part) for part in parts))


def embed_json(data: Any) -> Html:
    """JSON for a ``<script>`` element: no character in it can end the element; numbers that are not finite are null."""
    text = json.dumps(_finite(data), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Html(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {str(key): _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return None
    return data
