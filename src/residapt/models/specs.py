"""Model specs: one string that names a network, on the command line and in a configuration."""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from residapt.errors import ConfigError, ModelError
from residapt.models.input_spec import NATIVE
from residapt.models.weights import load_weights
from residapt.models.zoo import build_hf, build_timm, build_torchvision, nearest, unknown_spec

_log = logging.getLogger(__name__)


def build_model(
    spec: str,
    *,
    num_classes: int,
    in_channels: int = 3,
    image_size: int | None = None,
    weights: Path | None = None,
    pretrained: bool = False,
) -> nn.Module:
    """Build the network that ``spec`` names, with random weights, those of a file or pre-trained ones.

    ``lenet``, ``ganin_lenet``, ``svhnet``, ``dtn``, ``uavnet``, ``torchvision:NAME``, ``timm:NAME``,
    ``hf:NAME_OR_DIRECTORY`` (comes with its own weights), or ``package.module:factory``, which imports that
    module and calls ``factory(num_classes=...)``: the only spec that runs code from outside residapt.
    ``image_size`` matters to networks of a fixed size only. The head of a weights file is replaced when it
    was made for another number of classes. ``pretrained`` takes the weights that torchvision and timm publish, which
    these libraries download.
    """
    for name, value in (
        ("num_classes", num_classes),
        ("in_channels", in_channels),
        ("image_size", image_size or 1),
    ):
        if value < 1:
            raise ConfigError(f"model {spec}: {name} must be 1 or more, got {value}.")
    model = _build(spec, num_classes, in_channels, image_size, random=weights is not None, pretrained=pretrained)
    if weights is not None:
        new = load_weights(model, Path(weights))
        if new:
            _log.info("%s: new classifier for %d classes (%s)", spec, num_classes, ", ".join(new))
    return model


def _build(
    spec: str, num_classes: int, in_channels: int, image_size: int | None, *, random: bool, pretrained: bool
) -> nn.Module:
    if spec in NATIVE:
        size = {} if image_size is None else {"image_size": image_size}
        return _native(spec, in_channels=in_channels, num_classes=num_classes, **size)
    family, colon, name = spec.partition(":")
    if not colon or not name:
        raise ConfigError(unknown_spec(spec, list(NATIVE)))
    if family == "torchvision":
        return build_torchvision(name, num_classes, in_channels, image_size, pretrained=pretrained)
    if family == "timm":
        return build_timm(name, num_classes, in_channels, image_size, pretrained=pretrained)
    if family == "hf":
        return build_hf(name, num_classes, in_channels, image_size, random=random)
    return _from_factory(family, name, num_classes)


def _native(spec: str, **options: int) -> nn.Module:
    """A network of ours, rejected before it takes memory: its size grows with the square of the images' sides."""
    network = NATIVE[spec].network
    with torch.device("meta"):
        needed = sum(p.numel() * p.element_size() for p in network(**options).parameters())
    if needed > (limit := machine_memory()):
        shown = ", ".join(f"{name}={value}" for name, value in options.items())
        raise ConfigError(
            f"model {spec} with {shown} takes {needed / 1e9:,.0f} GB, and this machine has {limit / 1e9:,.0f} GB. "
            "Use smaller images (--image-size)."
        )
    return network(**options)


def machine_memory() -> float:
    """Bytes of memory in this machine; infinity where the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return float("inf")


def _from_factory(module_name: str, attribute: str, num_classes: int) -> nn.Module:
    spec = f"{module_name}:{attribute}"
    factory = _import_factory(spec, module_name, attribute)
    try:
        model = factory(num_classes=num_classes)
    except Exception as error:  # code from outside can fail in any way
        raise ModelError(
            f"model {spec}: calling {attribute}(num_classes={num_classes}) failed: {type(error).__name__}: {error}. "
            "Give a function that builds the network from the number of classes."
        ) from error
    if not isinstance(model, nn.Module):
        raise ModelError(f"model {spec}: the factory returned {type(model).__name__}, not a torch.nn.Module.")
    return model


def _import_factory(spec: str, module_name: str, attribute: str) -> Callable[..., Any]:
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # the module is somebody else's code, and an import runs it
        hint = nearest(module_name, ["torchvision", "timm", "hf"])
        reason = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        raise ConfigError(
            f"model {spec}: module {module_name!r} cannot be imported ({reason}).{hint} "
            "Install it, or put its folder into PYTHONPATH."
        ) from error
    factory = getattr(module, attribute, None)
    if not callable(factory):
        hint = nearest(attribute, [n for n in vars(module) if not n.startswith("_")], f"{module_name}:")
        raise ConfigError(f"model {spec}: module {module_name!r} has no function {attribute!r}.{hint}")
    made: Callable[..., Any] = factory
    return made
