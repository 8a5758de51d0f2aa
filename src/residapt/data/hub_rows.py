"""Rows of Hugging Face data sets as encoded images: decoded once, kept in the cache, read by any thread."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from residapt.data.decode import decode_image
from residapt.models.input_spec import InputSpec


class HubRows:
    """The image column of a map-style data set."""

    files: tuple[Path, ...] = ()

    def __init__(self, rows: Any, column: str) -> None:
        from datasets import Image

        self.rows, self.column = rows.select_columns([column]).cast_column(column, Image(decode=False)), column
        self.fingerprint: str = rows._fingerprint

    @property
    def place(self) -> str:
        """The data set, as the library names its content."""
        return f"datasets {self.fingerprint}"

    def __len__(self) -> int:
        return len(self.rows)

    def names(self) -> Sequence[str]:
        """Rows have numbers."""
        return ()

    def content(self, index: int) -> str:
        """Data set and row."""
        return f"{self.fingerprint} {index}"

    def decode(self, index: int, form: InputSpec) -> Tensor:
        """The image of a row."""
        stored = self.rows[index][self.column]
        return decode_image(
            Path(stored["path"] or f"row {index}"),
            size=form.size,
            channels=form.channels,
            interpolation=form.interpolation,
            encoded=stored["bytes"],
        )


def encoded_rows(rows: Any, columns: Sequence[str]) -> HubRows | None:
    """The images of a Hugging Face data set as they are stored; None for other data, and where rows are transformed."""
    if not type(rows).__module__.startswith("datasets.") or not hasattr(rows, "cast_column"):
        return None
    features = getattr(rows, "features", None) or {}
    column = next((name for name in columns if type(features.get(name)).__name__ == "Image"), None)
    changed = getattr(rows, "format", {}).get("type") not in (None, "python")
    return None if column is None or changed else HubRows(rows, column)
