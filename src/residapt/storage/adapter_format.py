"""``adapter_config.json``: everything about an adapter that is not a tensor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import nn

from residapt.errors import ModelError, ResidaptError
from residapt.settings import Settings
from residapt.storage.base_network import TensorRecord
from residapt.storage.hub import CONFIG
from residapt.storage.metadata import AdapterMetadata
from residapt.streams.peft_streams import LowRankConfig
from residapt.transform import ResidualTransform, TransformConfig, VectorTransform

FORMAT = "residapt-adapter"
FORMAT_VERSION = 1

Base = Literal["reference", "included"]
# Larger numbers than any network has are rejected here: torch cannot even write down such shapes.
Count = Annotated[int, Field(ge=0, le=2**40)]
Rank = Annotated[int, Field(ge=0, le=2**20)]


class LayerRecord(Settings):
    """One transformed layer."""

    name: str
    """Its name in the network."""
    shape: tuple[Count, Count]
    """Outputs C and inputs N of its matrix."""
    before: tuple[Rank, Rank]
    """[l, r] at the start."""
    ranks: tuple[Rank, Rank]
    """[l, r] now; [0, 0] means that both domains share the layer."""
    bias_rank: Rank = 0
    """Width of the biases' block."""
    has_bias: bool = False
    """Whether the layer's biases are transformed with its weights."""
    parameters: Count
    """Numbers in the layer's transform."""

    def shapes(self, form: str) -> dict[str, tuple[int, ...]]:
        """The shape of each factor; nothing is allocated."""
        (outputs, inputs), (left, right) = self.shape, self.ranks
        with torch.device("meta"):
            made: nn.Module
            if form == "vector":
                made = VectorTransform(outputs, inputs, rank=left, has_bias=self.has_bias)
            else:
                made = ResidualTransform(
                    outputs,
                    inputs,
                    left_rank=left,
                    right_rank=right,
                    bias_rank=self.bias_rank,
                    has_bias=self.has_bias,
                )
        return {name: tuple(factor.shape) for name, factor in made.named_parameters()}


class AdapterConfig(AdapterMetadata):
    """The content of ``adapter_config.json``."""

    format: Literal["residapt-adapter"] = "residapt-adapter"
    """What kind of adapter this is."""
    format_version: Literal[1] = 1
    """Version of the format, raised whenever older versions of residapt could not read it."""
    base: Base
    """Whether changed source weights are in the file, or all of them referred to by hash."""
    weights_sha256: str
    """SHA-256 of adapter_model.safetensors."""
    transform: TransformConfig
    """Settings of the transforms."""
    low_rank: LowRankConfig | None = None
    """What peft adds instead of transforms."""
    layers: tuple[LayerRecord, ...]
    """Transformed layers, in order."""
    tensors: dict[str, TensorRecord]
    """Every tensor of the source network."""

    @property
    def carried(self) -> tuple[str, ...]:
        """Tensors of the source network that are in the file."""
        return tuple(name for name, record in self.tensors.items() if record.sha256 is None)


def read_config(path: Path) -> AdapterConfig:
    """``adapter_config.json`` of an adapter folder, validated."""
    file = path / CONFIG
    try:
        values = json.loads(file.read_bytes())
    except FileNotFoundError:
        raise ModelError(
            f"'{path}' is not an adapter: it has no {CONFIG}. Give the folder that save_pretrained wrote."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"'{file}' cannot be read as JSON: {error}. Get the adapter again.") from None
    _check_format(file, values)
    try:
        return AdapterConfig.parse(values, where=str(file))
    except Exception as error:  # a setting that names a function of torch can fail in that function's way
        raise ModelError(
            str(error) if isinstance(error, ResidaptError) else f"'{file}' cannot be used: {error}"
        ) from None


def _check_format(file: Path, values: Any) -> None:
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise ModelError(f"'{file}' is not of a residapt adapter (its format is not '{FORMAT}').")
    version = values.get("format_version")
    if version != FORMAT_VERSION:
        raise ModelError(
            f"'{file}' has format version {version!r}, and this residapt reads {FORMAT_VERSION}. "
            f"It was written by residapt {values.get('version')!r}: install that version or a newer one."
        )
