"""``model.safetensors``: a plain network with its metadata."""

from __future__ import annotations

from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from residapt.errors import ModelError
from residapt.storage.atomic import atomic_file
from residapt.storage.metadata import AdapterMetadata, from_properties, to_properties


def plain_state(model: nn.Module) -> dict[str, Tensor]:
    """The state dict as tensors of their own on the CPU; a tied weight is written under each of its names."""
    state = model.state_dict()
    return {name: t.detach().cpu().contiguous().clone() for name, t in state.items() if isinstance(t, Tensor)}


def write_model(model: nn.Module, path: Path, metadata: AdapterMetadata, *, overwrite: bool = True) -> None:
    """Write the network's state dict with spec, classes and input in the file's metadata."""
    with atomic_file(path, overwrite=overwrite) as temporary:
        safetensors.torch.save_file(plain_state(model), temporary, {"format": "pt", **to_properties(metadata)})


def read_model_metadata(path: Path) -> AdapterMetadata:
    """The metadata of a file written by :func:`write_model`."""
    try:
        with safe_open(path, "pt") as file:
            properties = file.metadata() or {}
    except FileNotFoundError:
        raise ModelError(f"model file '{path}' does not exist. Give a run directory or a .safetensors file.") from None
    except (SafetensorError, OSError) as error:
        raise ModelError(f"model file '{path}' is not a valid safetensors file: {error}. Get it again.") from None
    return from_properties(properties, where=str(path))
