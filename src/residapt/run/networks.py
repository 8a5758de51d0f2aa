"""The network of a run: built from a spec with its weights, or given; its input, and what its file says about it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from residapt.config import Config, ModelConfig, load_config
from residapt.data.batches import derived_seed
from residapt.data.domains import Labelled
from residapt.errors import ModelError, first_line
from residapt.evaluate.predict import evaluating, predict_logits
from residapt.models import InputSpec, build_model, input_spec, load_weights, with_bottleneck
from residapt.models.standardise import standardised
from residapt.storage.metadata import AdapterMetadata, from_properties
from residapt.storage.run_directory import RunDirectory
from residapt.transform.modes import evaluation_mode

OWN = "given:"
"""Before the class name of a network that was given as an object, where a spec would stand."""


@dataclass(frozen=True, eq=False)
class Network:
    """A network, ready to be trained."""

    module: nn.Module
    pretrained: bool
    """Whether it starts from weights that were trained on something."""
    trained: bool
    """Whether it was trained on the source already."""


def with_base(config: Config) -> Config:
    """The configuration with the model of the base run, where a run is the base and no model is given.

    Whether the network standardises its input, the base's file says, unless that is set.
    """
    if config.model.base is None:
        return config
    base, model, data = Path(config.model.base), config.model, config.data
    if "standardise" not in model.model_fields_set:
        said = _metadata_in(_base_file(base))
        model = model.model_copy(update={"standardise": said is not None and said.standardise})
    if not base.is_dir():
        return _as_the_file_says(config.model_copy(update={"model": model}), _metadata_in(base))
    other = load_config(RunDirectory.open(base).config)
    if "spec" not in model.model_fields_set:
        model = model.model_copy(update={name: getattr(other.model, name) for name in ("spec", "bottleneck")})
    if "image_size" not in data.model_fields_set:
        data = data.model_copy(update={"image_size": other.data.image_size, "channels": other.data.channels})
    return config.model_copy(update={"model": model, "data": data})


def _as_the_file_says(config: Config, said: AdapterMetadata | None) -> Config:
    """The network and the image size that a file of residapt names, where they are not set."""
    if said is None or said.model is None or "spec" in config.model.model_fields_set:
        return config
    config = config.with_group("model", spec=said.model, bottleneck=said.bottleneck)
    if said.input is None or "image_size" in config.data.model_fields_set:
        return config
    return config.with_group("data", image_size=said.input.size, channels=said.input.channels)


def configured_input(config: Config, module: nn.Module | None) -> InputSpec:
    """The input of the network, changed by what the configuration says."""
    spec = config.model.spec
    if module is None and ":" in spec and spec.partition(":")[0] not in ("torchvision", "timm", "hf"):
        # What a factory makes is known only when it is made; the number of classes does not matter here.
        module = build_model(spec, num_classes=2)
    form, data = input_spec(module or spec), config.data
    if data.channels is not None and data.channels != form.channels:
        # Grey images have no colour statistics, so that the mean over the channels stands for each.
        mean, std = (sum(values) / len(values) for values in (form.mean, form.std))
        grey = {"channels": data.channels, "mean": (mean,) * data.channels, "std": (std,) * data.channels}
        form = form.model_copy(update=grey)
    return form if data.image_size is None else form.model_copy(update={"size": data.image_size})


def build_network(config: Config, form: InputSpec, classes: Sequence[str]) -> Network:
    """The network that the configuration names, with its weights or those of its base."""
    model = config.model
    downloads = takes_published_weights(model)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derived_seed(config.seed, "network"))
        module = build_model(
            model.spec,
            num_classes=len(classes),
            in_channels=form.channels,
            image_size=config.data.image_size,
            weights=None if model.weights in (None, "none") else Path(model.weights),
            pretrained=downloads,
        )
        if model.bottleneck is not None:
            module = with_bottleneck(module, num_classes=len(classes), width=model.bottleneck)
    if model.standardise:
        standardised(module)
    if model.base is not None:
        _load_base(module, Path(model.base), classes)
    hub = model.spec.startswith("hf:") and model.weights != "none"
    pretrained = downloads or hub or model.weights not in (None, "none") or model.base is not None
    return Network(module, pretrained, trained=model.base is not None)


def takes_published_weights(model: ModelConfig) -> bool:
    """Whether the network starts from the weights that timm or torchvision publish: unless others are given."""
    return model.weights is None and model.base is None and model.spec.startswith(("timm:", "torchvision:"))


def given_network(config: Config, module: nn.Module) -> Network:
    """A copy of a network that is an object; the user's own stays as it is."""
    module = copy.deepcopy(module)
    return Network(standardised(module) if config.model.standardise else module, pretrained=False, trained=False)


@torch.no_grad()
def count_outputs(module: nn.Module, example: Tensor) -> int:
    """Number of outputs of a network, found by a forward pass; its errors are raised with the input's shape."""
    try:
        with evaluation_mode(module):
            result = module(example)
    except (RuntimeError, ValueError, TypeError, AssertionError) as error:
        reason = first_line(error)
        raise ModelError(
            f"{type(module).__name__} cannot read images of shape {tuple(example.shape[1:])}: {reason}. "
            "Set --image-size or data.channels to what it expects."
        ) from None
    logits = logits_in(result)
    if not isinstance(logits, Tensor) or logits.ndim != 2:
        raise ModelError(
            f"{type(module).__name__} returned {type(result).__name__}; residapt needs logits of shape "
            "(batch, classes)."
        )
    return int(logits.shape[1])


def accuracy_of(module: nn.Module, data: Labelled, device: torch.device) -> float:
    """Share of correct predictions of a plain network, in per cent."""
    with evaluating(module):
        logits = predict_logits(lambda x: logits_in(module(x)), data.images, batch_size=64, device=device)
    return 100.0 * float((logits.argmax(1) == data.labels).double().mean())


def logits_in(result: Any) -> Tensor:
    """What a network returned, without the object that some put around it."""
    logits: Tensor = getattr(result, "logits", result)
    return logits


def _load_base(module: nn.Module, base: Path, classes: Sequence[str]) -> None:
    file = _base_file(base)
    if base.is_dir() and not file.is_file():
        raise ModelError(f"base run '{base}' has no {file.name}: its source training has not ended. Resume it first.")
    new = load_weights(module, file)
    if new:
        raise ModelError(
            f"base '{file}' was made for another number of classes than the {len(classes)} of the source ({new[0]}). "
            "Start from it with --weights instead, which trains the source network."
        )
    said = _metadata_in(file)
    if said is not None and said.classes != tuple(classes):
        odd = next((a, b) for a, b in zip(said.classes, classes, strict=True) if a != b)
        raise ModelError(
            f"base '{file}' was trained on other classes: it has '{odd[0]}' where the source has '{odd[1]}'. "
            "Start from it with --weights instead, which trains the source network."
        )


def base_metadata(config: Config) -> AdapterMetadata | None:
    """What the base's file says about itself, if residapt wrote it."""
    return None if config.model.base is None else _metadata_in(_base_file(Path(config.model.base)))


def _base_file(base: Path) -> Path:
    return RunDirectory(base).source if base.is_dir() else base


def _metadata_in(file: Path) -> AdapterMetadata | None:
    """What residapt wrote about the network into a file, if it did."""
    if file.suffix != ".safetensors":
        return None
    try:
        with safe_open(file, framework="pt") as opened:
            return from_properties(opened.metadata() or {}, where=str(file))
    except (ModelError, SafetensorError, OSError):
        return None
