"""Printed digit shapes, drawn by the program: one scalable font, seven segments, and pen-stroke alphabets."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

GLYPH_SIZE = 64
"""Pixels per side of a glyph; the digit fills the height but for a margin."""

_OVERSAMPLE = 3
_MARGIN = 10
_Point = tuple[float, float]
_Path = list[_Point]

_FONT_STROKES = (0, 1, 2, 4)
_SEGMENT_WIDTHS = (0.10, 0.16, 0.22)
_PEN_WIDTHS = (0.07, 0.12, 0.17, 0.22)
# Which segments light up for 0 to 9: a at the top, then clockwise to f, and g in the middle.
_LIT = ("abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg")
_SEGMENTS: dict[str, _Path] = {
    "a": [(0.2, 0.05), (0.8, 0.05)],
    "b": [(0.8, 0.05), (0.8, 0.5)],
    "c": [(0.8, 0.5), (0.8, 0.95)],
    "d": [(0.2, 0.95), (0.8, 0.95)],
    "e": [(0.2, 0.5), (0.2, 0.95)],
    "f": [(0.2, 0.05), (0.2, 0.5)],
    "g": [(0.2, 0.5), (0.8, 0.5)],
}


@lru_cache(maxsize=1)
def glyph_bank() -> Tensor:
    """Every glyph, float in [0, 1], shape (fonts, 10, GLYPH_SIZE, GLYPH_SIZE), bright on dark."""
    fonts = [[_typeset(digit, stroke) for digit in range(10)] for stroke in _FONT_STROKES]
    fonts += [[_draw(_segments(digit), width) for digit in range(10)] for width in _SEGMENT_WIDTHS]
    for alphabet in (_plain(), _round(), _open()):
        fonts += [[_draw(paths, width) for paths in alphabet] for width in _PEN_WIDTHS]
    return torch.stack([torch.stack(font) for font in fonts])


def _typeset(digit: int, stroke: int) -> Tensor:
    """Pillow's embedded font, made bolder by a stroke; cropped and centred like the drawn digits."""
    size = GLYPH_SIZE * _OVERSAMPLE
    font = ImageFont.load_default(size=size)
    canvas = Image.new("L", (2 * size, 2 * size))
    ImageDraw.Draw(canvas).text(
        (size // 2, size // 4), str(digit), fill=255, font=font, stroke_width=stroke * _OVERSAMPLE
    )
    box = canvas.getbbox()
    assert box is not None
    cut = canvas.crop(box)
    height = size - 2 * _MARGIN * _OVERSAMPLE
    cut = cut.resize((max(1, round(cut.width * height / cut.height)), height), Image.Resampling.LANCZOS)
    canvas = Image.new("L", (size, size))
    canvas.paste(cut, ((size - cut.width) // 2, _MARGIN * _OVERSAMPLE))
    return _finish(canvas)


def _draw(paths: Iterable[_Path], width: float) -> Tensor:
    """Paths in the unit square drawn with a round pen; ``width`` is a share of the digit's height."""
    size = GLYPH_SIZE * _OVERSAMPLE
    inner = size - 2 * _MARGIN * _OVERSAMPLE
    pen = max(1.0, width * inner)
    canvas = Image.new("L", (size, size))
    draw = ImageDraw.Draw(canvas)
    # The pen's middle stays half its width inside, so that bold and thin digits are equally high.
    start, span_y, span_x = (size - inner + pen) / 2, inner - pen, 0.72 * inner - pen / 2
    left = (size - span_x) / 2
    for path in paths:
        points = [(left + x * span_x, start + y * span_y) for x, y in path]
        draw.line(points, fill=255, width=round(pen), joint="curve")
        for x, y in points:
            draw.ellipse((x - pen / 2, y - pen / 2, x + pen / 2, y + pen / 2), fill=255)
    return _finish(canvas)


def _finish(canvas: Image.Image) -> Tensor:
    small = canvas.resize((GLYPH_SIZE, GLYPH_SIZE), Image.Resampling.BOX)
    return torch.from_numpy(np.asarray(small, dtype=np.float32) / 255)


def _segments(digit: int) -> list[_Path]:
    return [_SEGMENTS[name] for name in _LIT[digit]]


def _arc(cx: float, cy: float, rx: float, ry: float, start: float, stop: float) -> _Path:
    """Part of an ellipse; degrees run clockwise from the right, since y points down."""
    steps = max(2, int(abs(stop - start) / 8))
    angles = [math.radians(start + (stop - start) * i / steps) for i in range(steps + 1)]
    return [(cx + rx * math.cos(a), cy + ry * math.sin(a)) for a in angles]


def _bend(a: _Point, control: _Point, b: _Point) -> _Path:
    """A quadratic Bézier curve."""
    ts = [i / 10 for i in range(11)]
    return [
        tuple((1 - t) ** 2 * p + 2 * t * (1 - t) * c + t * t * q for p, c, q in zip(a, control, b, strict=True))  # type: ignore[misc]
        for t in ts
    ]


def _plain() -> list[list[_Path]]:
    """A technical alphabet: straight strokes where a curve is not needed."""
    return [
        [_arc(0.5, 0.5, 0.42, 0.5, 0, 360)],
        [[(0.5, 0.0), (0.5, 1.0)]],
        [[*_arc(0.5, 0.28, 0.42, 0.28, 190, 395), (0.06, 1.0), (0.96, 1.0)]],
        [[(0.06, 0.0), (0.9, 0.0), (0.45, 0.4)], _arc(0.44, 0.7, 0.46, 0.3, 270, 510)],
        [[(0.7, 1.0), (0.7, 0.0), (0.0, 0.7), (1.0, 0.7)]],
        [[(0.88, 0.0), (0.16, 0.0), (0.1, 0.46), *_arc(0.46, 0.68, 0.44, 0.32, 230, 505)]],
        [_arc(0.5, 0.7, 0.42, 0.3, 0, 360), [(0.68, 0.0), (0.13, 0.58)]],
        [[(0.04, 0.0), (0.96, 0.0), (0.38, 1.0)]],
        [_arc(0.5, 0.24, 0.36, 0.24, 0, 360), _arc(0.5, 0.73, 0.43, 0.27, 0, 360)],
        [_arc(0.5, 0.3, 0.42, 0.3, 0, 360), [(0.87, 0.42), (0.34, 1.0)]],
    ]


def _round() -> list[list[_Path]]:
    """A rounder alphabet, with a flag on the 1 and curved stems on 6 and 9."""
    return [
        [_arc(0.5, 0.5, 0.34, 0.5, 0, 360)],
        [[(0.2, 0.25), (0.55, 0.0), (0.55, 1.0)]],
        [[*_arc(0.5, 0.3, 0.4, 0.3, 180, 360), *_bend((0.9, 0.3), (0.85, 0.6), (0.08, 1.0)), (0.94, 1.0)]],
        [[*_arc(0.45, 0.25, 0.38, 0.25, 200, 440), *_arc(0.45, 0.73, 0.43, 0.27, 280, 520)]],
        [[(0.62, 0.0), (0.02, 0.62), (0.98, 0.62)], [(0.7, 0.32), (0.7, 1.0)]],
        [[(0.84, 0.0), (0.2, 0.0), (0.16, 0.42), *_arc(0.45, 0.69, 0.42, 0.31, 240, 500)]],
        [[*_bend((0.8, 0.02), (0.1, 0.1), (0.08, 0.7)), *_arc(0.5, 0.7, 0.42, 0.3, 180, 540)]],
        [[(0.06, 0.0), (0.94, 0.0), *_bend((0.94, 0.0), (0.5, 0.45), (0.42, 1.0))]],
        [_arc(0.5, 0.26, 0.38, 0.26, 0, 360), _arc(0.5, 0.75, 0.38, 0.25, 0, 360)],
        [[*_arc(0.5, 0.3, 0.42, 0.3, 0, 360), *_bend((0.92, 0.3), (0.9, 0.92), (0.2, 0.98))]],
    ]


def _open() -> list[list[_Path]]:
    """A sign-writer's alphabet: an open 4, a barred 7, a 1 with a foot, a 9 with an upright stem."""
    return [
        [_arc(0.5, 0.5, 0.48, 0.5, 0, 360)],
        [[(0.22, 0.2), (0.52, 0.0), (0.52, 1.0)], [(0.2, 1.0), (0.84, 1.0)]],
        [[*_arc(0.48, 0.27, 0.4, 0.27, 200, 380), (0.5, 0.65), (0.1, 1.0), (0.95, 1.0)]],
        [_arc(0.42, 0.26, 0.42, 0.26, 230, 450), _arc(0.42, 0.74, 0.48, 0.26, 270, 490)],
        [[(0.16, 0.0), (0.06, 0.56), (0.94, 0.56)], [(0.74, 0.1), (0.7, 1.0)]],
        [[(0.16, 0.0), (0.16, 0.42), *_arc(0.4, 0.7, 0.48, 0.3, 250, 490)], [(0.16, 0.0), (0.9, 0.0)]],
        [[(0.4, 0.0), (0.1, 0.6), *_arc(0.48, 0.72, 0.4, 0.28, 190, 550)]],
        [[(0.06, 0.04), (0.94, 0.0), (0.42, 1.0)], [(0.3, 0.5), (0.86, 0.46)]],
        [[*_arc(0.5, 0.25, 0.4, 0.25, 300, 90), *_arc(0.5, 0.75, 0.42, 0.25, 270, 540), (0.8, 0.1)]],
        [_arc(0.48, 0.28, 0.38, 0.28, 0, 360), [(0.87, 0.1), (0.84, 1.0)]],
    ]
