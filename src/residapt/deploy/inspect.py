"""Contents of a run, an adapter or a model file: layers, ranks, parameters and sizes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path

from safetensors import safe_open

from residapt.storage import AdapterConfig, AdapterMetadata, LayerRecord, read_config
from residapt.storage.hub import CONFIG, adapter_folder
from residapt.storage.model_file import read_model_metadata
from residapt.storage.run_directory import RunDirectory, check_result


@dataclass(frozen=True)
class Inspection:
    """The findings."""

    path: Path
    metadata: AdapterMetadata
    layers: tuple[LayerRecord, ...]
    """Transformed layers; empty where all layers are shared, or no adapter was written."""
    base: str | None
    """Whether the adapter carries its base; None without an adapter."""
    network_parameters: int
    """Numbers in the network, statistics included."""
    adapter_parameters: int
    """Numbers in the transforms."""
    files: dict[str, int]
    """Size of each file in bytes."""

    @property
    def share(self) -> float:
        """Numbers in the transforms for each hundred of the network."""
        return 100.0 * self.adapter_parameters / max(self.network_parameters, 1)


def inspect_run(path: Path | str) -> Inspection:
    """Read configuration and headers; no network is built and no tensor loaded."""
    path = adapter_folder(path)
    check_result(path)
    if path.is_file():
        return _of_model(path, path)
    if (path / CONFIG).is_file():
        return _of_adapter(path, read_config(path), _sizes(path))
    run = RunDirectory(path)
    if (run.adapter / CONFIG).is_file():
        return _of_adapter(path, read_config(run.adapter), _sizes(path))
    return _of_model(path, run.model)


def _of_adapter(path: Path, config: AdapterConfig, files: dict[str, int]) -> Inspection:
    network = sum(prod(record.shape) for record in config.tensors.values())
    adapter = sum(layer.parameters for layer in config.layers)
    return Inspection(path, config, config.layers, config.base, network, adapter, files)


def _of_model(path: Path, file: Path) -> Inspection:
    metadata = read_model_metadata(file)
    with safe_open(file, "pt") as content:
        network = sum(prod(content.get_slice(name).get_shape()) for name in content.keys())  # noqa: SIM118
    return Inspection(path, metadata, (), None, network, 0, _sizes(path))


def _sizes(path: Path) -> dict[str, int]:
    if path.is_file():
        return {path.name: path.stat().st_size}
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return {file.relative_to(path).as_posix(): file.stat().st_size for file in files}
