"""Settings of data; importing this module does not import torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from residapt.settings import Settings

if TYPE_CHECKING:
    from residapt.data.augment import Augment

Balance = Literal["as-is", "classes"]
"""Labelled images as often as they are, or each class as often as every other."""


class AugmentConfig(Settings):
    """Random changes of images that leave their class as it is; all of them are off by default."""

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

    def build(self) -> Augment | None:
        """The changes as a function of a batch; None if all of them are off."""
        from residapt.data.augment import Augment

        values = self.model_dump()
        return Augment(**values, value_range=None) if any(values.values()) else None
