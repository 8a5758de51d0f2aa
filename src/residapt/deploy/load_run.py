"""A finished run, a model file or an adapter as a network that is ready to use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from residapt.config import read_toml
from residapt.data.labelled_target import read_label_records
from residapt.data.preprocess import to_float
from residapt.data.same_files import Mark
from residapt.distributed import Engine
from residapt.errors import ConfigError, ModelError
from residapt.models import InputSpec, build_model, input_spec, load_weights, with_bottleneck
from residapt.models.standardise import standardised
from residapt.storage import AdapterMetadata, load, read_config
from residapt.storage.hub import CONFIG, adapter_folder
from residapt.storage.model_file import read_model_metadata
from residapt.storage.run_directory import RunDirectory, check_result
from residapt.trust import refuse_code

WEIGHTS_ONLY = (".pth", ".pt", ".pkl", ".ckpt", ".bin")
"""How the names of PyTorch's own files of weights end."""


@dataclass(frozen=True, eq=False)
class DeployedModel:
    """The selected network as a plain module in evaluation mode, with everything needed to use it."""

    model: nn.Module
    classes: tuple[str, ...]
    input: InputSpec
    spec: str
    metadata: AdapterMetadata
    device: torch.device
    target: Path | None = None
    """The target folder, where the run names one."""
    labelled: frozenset[Mark] = frozenset()
    """The images whose labels the run was trained on."""

    @torch.inference_mode()
    def logits(self, pixels: Tensor) -> Tensor:
        """Logits of uint8 images (n, channels, size, size), on the CPU."""
        floats = to_float(pixels.to(self.device), self.input.mean, self.input.std)
        result = self.model(floats)
        logits: Tensor = getattr(result, "logits", result)
        return logits.float().cpu()


def load_run(
    path: Path | str, *, base: Path | str | None = None, device: str = "cpu", trust_code: bool = False
) -> DeployedModel:
    """Read a run directory, a ``model.safetensors``, an adapter folder, or an adapter on the Hugging Face Hub.

    ``base`` is the base network's file with weights, or its run, for an adapter that does not carry them; the run
    around an adapter is found without it. A file whose network is ``package.module:factory`` is refused unless
    ``trust_code`` allows to import that module and to call that function.
    """
    path = adapter_folder(path)
    if path.suffix.lower() in WEIGHTS_ONLY and path.is_file():
        raise ConfigError(
            f"'{path}' holds weights alone: neither its network nor its classes are known. Give the run directory, the "
            f"adapter folder or the {RunDirectory(path.parent).model.name} that it was exported from."
        )
    check_result(path)
    if path.is_file():
        return _from_file(path, device, trust_code)
    if (path / CONFIG).is_file():
        return _from_adapter(path, None if base is None else Path(base), device, trust_code)
    run = RunDirectory(path)
    if not run.model.is_file():
        raise ConfigError(
            f"run '{path}' has not finished: it has no {run.model.name}. Resume it with residapt adapt --resume."
        )
    labelled = frozenset(record.mark for record in read_label_records(run.labelled))
    return replace(_from_file(run.model, device, trust_code), target=_target_of(run), labelled=labelled)


def _from_file(file: Path, device: str, trust_code: bool) -> DeployedModel:
    metadata = read_model_metadata(file)
    network = described_network(metadata, str(file), trust_code=trust_code)
    missing = load_weights(network, file)
    if missing:
        raise ModelError(
            f"model file '{file}' does not fit the network it names, '{metadata.model}': tensor '{missing[0]}' is "
            "missing or of another shape. Export it again."
        )
    return _deployed(network, metadata, device)


def _from_adapter(path: Path, base: Path | None, device: str, trust_code: bool) -> DeployedModel:
    config = read_config(path)
    network = described_network(config, str(path), trust_code=trust_code)
    whole = set(config.carried) == set(config.tensors)
    weights = _base_weights(path, base)
    if weights is not None and not whole:
        load_weights(network, weights)
    try:
        streams = load(network, path)
    except ModelError as error:
        if whole or weights is not None:
            raise
        raise ModelError(f"{error} This adapter does not carry its base: name the file with --base.") from None
    return _deployed(streams.merge_and_unload(), config, device)


def _base_weights(adapter: Path, base: Path | None) -> Path | None:
    """The file or run given, or the source network of the run around the adapter."""
    if base is not None:
        return RunDirectory.open(base).source if base.is_dir() else base
    beside = RunDirectory(adapter.absolute().parent).source
    return beside if beside.is_file() else None


def described_network(metadata: AdapterMetadata, where: str, *, trust_code: bool = False) -> nn.Module:
    """The network that the metadata describe, without its weights; code is run only with ``trust_code``."""
    refuse_code(metadata.model, where=f"'{where}'", trust_code=trust_code)
    if metadata.model is None or metadata.input is None:
        raise ModelError(
            f"'{where}' does not name its network and input size, since it was made from a module and tensors. "
            "Build the network yourself, and use residapt.load(model, path) or load_state_dict."
        )
    size = metadata.input.size
    network = build_model(
        metadata.model,
        num_classes=len(metadata.classes),
        in_channels=metadata.input.channels,
        # Not every network takes a size, and none needs its own default.
        image_size=None if size == input_spec(metadata.model).size else size,
    )
    if metadata.bottleneck is not None:
        network = with_bottleneck(network, num_classes=len(metadata.classes), width=metadata.bottleneck)
    return standardised(network) if metadata.standardise else network


def _deployed(network: nn.Module, metadata: AdapterMetadata, device: str) -> DeployedModel:
    # described_network has refused metadata without them
    assert metadata.input is not None
    assert metadata.model is not None
    place = _device(device)
    network = network.to(place).eval().requires_grad_(False)
    return DeployedModel(network, metadata.classes, metadata.input, metadata.model, metadata, place)


def _target_of(run: RunDirectory) -> Path | None:
    folder = read_toml(run.config).get("data", {}).get("target")
    return Path(folder) if isinstance(folder, str) else None


def _device(name: str) -> torch.device:
    # The engine keeps to the first device asked of it, so the processor alone does not go through it.
    if name == "cpu":
        return torch.device("cpu")
    try:
        return Engine(name).device
    except RuntimeError:
        raise ConfigError(f"device must be auto, cpu, cuda or mps, got {name!r}.") from None
