"""Numbers as people read them."""

from __future__ import annotations

import math


def count(number: int) -> str:
    """12,345."""
    return f"{number:,}"


def signed(points: float) -> str:
    """+3.1 or −3.1, with a real minus sign."""
    return f"{points:+.1f}".replace("-", "−")


def number(value: float) -> str:
    """Three significant figures, with a real minus sign."""
    return "–" if math.isnan(value) else f"{value:.3g}".replace("-", "−")


def duration(seconds: float) -> str:
    """45 s, 12 min 30 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def plural(number: int, one: str, many: str | None = None) -> str:
    """1 layer, 2 layers."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def megabytes(size: int) -> str:
    """12.3 MB, 45.6 kB."""
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.1f} kB"


SCORE_NAMES = {"infomax": "InfoMax", "bnm": "BNM", "snd": "SND", "class_ami": "ClassAMI", "dev": "DEV", "devn": "DEVN"}


def score_name(key: str) -> str:
    """A label-free score as publications write it."""
    return SCORE_NAMES.get(key, key.replace("_", " "))
