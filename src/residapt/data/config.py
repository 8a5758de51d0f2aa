"""Settings of data; importing this module does not import torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from residapt.settings import Settings

if TYPE_CHECKING:
    from residapt.data.strong import Change

Balance = Literal["as-is", "classes"]
"""Labelled images as often as they are, or each class as often as every other."""


Strength = Literal["none", "weak", "mixed", "strong"]
"""How far random changes go; mixed changes half of the samples weakly and half strongly."""


class ViewsConfig(Settings):
    """Outputs of frozen stages, which are computed once."""

    count: int | None = Field(None, ge=1)
    """Augmented views of each image, of which a batch takes one at random. None takes 8, or as many as there is time
    for."""
    precision: Literal["float16", "float32"] = "float16"
    """How outputs are kept."""


class AugmentConfig(Settings):
    """Random changes of labelled samples that leave their class as it is; all of them are off by default."""

    strength: Strength = "none"
    """Changes that go together, for images, series and features alike; instead of the single ones below."""
    shift: float = Field(0.0, ge=0)
    """Largest shift in whole pixels."""
    rotate: float = Field(0.0, ge=0, le=180)
    """Largest rotation in degrees, either way."""
    scale: float = Field(0.0, ge=0, lt=1)
    """Largest relative change of height and of width."""
    shear: float = Field(0.0, ge=0, le=1)
    """Largest slant, as the tangent of its angle."""
    contrast: float = Field(0.0, ge=0, le=1)
    """Largest relative change of the distance to the image's mean."""
    invert: float = Field(0.0, ge=0, le=1)
    """Probability of exchanging dark and bright (polarity), within each image's own range of values."""

    @property
    def single(self) -> dict[str, Any]:
        """The changes that are set one by one, which images alone can have."""
        return {name: value for name, value in self.model_dump(exclude={"strength"}).items() if value}

    def build(self) -> Change | None:
        """The changes as a function of a batch; None if all of them are off."""
        from residapt.data.augment import Augment
        from residapt.data.strong import Changes

        if self.strength != "none":
            return Changes(self.strength)
        return Augment(**self.single, value_range=None) if self.single else None
