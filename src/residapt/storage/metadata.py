"""Metadata of a saved network: its spec, classes and input, so that the file can be used alone."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import Field, field_validator

from residapt.errors import ModelError, ResidaptError
from residapt.models.input_spec import InputSpec
from residapt.settings import LARGEST, Settings

_PREFIX = "residapt."


def _version() -> str:
    from residapt.version import __version__

    return __version__


class AdapterMetadata(Settings):
    """The network, its classes and its input, in the adapter, in ``model.safetensors`` and in ONNX files.

    Example:
        >>> AdapterMetadata(method="rpt", classes=("cat", "dog")).model_dump(include={"method", "classes"})
        {'method': 'rpt', 'classes': ('cat', 'dog')}
    """

    method: str
    """Name of the method that made it."""
    classes: tuple[str, ...] = Field(min_length=1)
    """Class names in the order of the network's outputs."""
    model: str | None = None
    """Model spec; None for a network that no spec names, which has to be built by hand."""
    bottleneck: int | None = Field(None, ge=1, le=LARGEST)
    """Width of the bottleneck that was put before the classifier."""
    standardise: bool = False
    """Whether the network standardises each image by itself before anything else."""
    input: InputSpec | None = None
    """Input of the network; None when it was adapted on tensors."""
    frequencies: tuple[float, ...] | None = None
    """Share of each class among the source images."""
    version: str = Field(default_factory=_version)
    """The version of residapt that wrote it."""

    @field_validator("classes")
    @classmethod
    def _different(cls, classes: tuple[str, ...]) -> tuple[str, ...]:
        twice = sorted({name for name in classes if classes.count(name) > 1})
        if twice:
            raise ValueError(f"class names must differ, but {twice[0]!r} is there twice")
        return classes


def to_properties(metadata: AdapterMetadata) -> dict[str, str]:
    """One text per field, for file formats whose metadata are pairs of texts."""
    return {_PREFIX + name: json.dumps(value) for name, value in metadata.model_dump(mode="json").items()}


def from_properties(properties: Mapping[str, str], *, where: str) -> AdapterMetadata:
    """The record that :func:`to_properties` wrote; other properties are ignored."""
    own = {name.removeprefix(_PREFIX): text for name, text in properties.items() if name.startswith(_PREFIX)}
    if not own:
        raise ModelError(
            f"'{where}' does not say which network, classes and input it is for: residapt did not write it."
        )
    try:
        return AdapterMetadata.parse({name: json.loads(text) for name, text in own.items()}, where=where)
    except (ResidaptError, ValueError, RecursionError) as error:
        raise ModelError(f"the metadata of '{where}' cannot be used: {error}") from None
