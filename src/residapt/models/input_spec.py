"""What images a network wants: size, channels and normalisation."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from residapt.errors import ConfigError
from residapt.models.dtn import DTN
from residapt.models.lenet import GaninLeNet, LeNet
from residapt.models.small import UavNet
from residapt.models.svhnet import SvhNet
from residapt.models.zoo import hf_file, require_known, timm_module, torchvision_models, unknown_spec

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class InputSpec:
    """How images are brought into the form that a network was made for."""

    size: int
    """Height and width in pixels."""
    channels: int
    """1 for grey, 3 for RGB."""
    mean: tuple[float, ...]
    """Subtracted per channel from values in [0, 1]."""
    std: tuple[float, ...]
    """Divides per channel after that."""
    interpolation: str = "bilinear"
    """Used for resizing: "bilinear" or "bicubic"."""

    def __post_init__(self) -> None:
        if self.size < 1 or self.channels < 1:
            raise ConfigError(f"InputSpec needs size and channels of 1 or more, got {self.size} and {self.channels}.")
        if not len(self.mean) == len(self.std) == self.channels:
            raise ConfigError(
                f"InputSpec needs one mean and one std per channel, got {len(self.mean)} and {len(self.std)} "
                f"for {self.channels} channels."
            )
        if not all(value > 0 for value in self.std):
            raise ConfigError(f"InputSpec std must be positive, got {self.std}.")


IMAGENET = InputSpec(224, 3, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


class Native(NamedTuple):
    """A network that residapt itself defines, and its input."""

    network: type[nn.Module]
    input: InputSpec


_GREY = InputSpec(28, 1, (0.5,), (0.5,))
_RGB = InputSpec(32, 3, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
NATIVE = {
    "lenet": Native(LeNet, _GREY),
    "ganin_lenet": Native(GaninLeNet, _GREY),
    "svhnet": Native(SvhNet, _RGB),
    "dtn": Native(DTN, _RGB),
    "uavnet": Native(UavNet, replace(_GREY, size=40)),
}
"""Model specs without a library's name before them."""


def input_spec(model: str | nn.Module) -> InputSpec:
    """The input of a model spec, or of a built model; ImageNet's when the model does not say."""
    if isinstance(model, nn.Module):
        return _of_module(model)
    if model in NATIVE:
        return NATIVE[model].input
    family, colon, name = model.partition(":")
    if not colon or not name:
        raise ConfigError(unknown_spec(model, list(NATIVE)))
    if family == "torchvision":
        return _of_torchvision(name)
    if family == "timm":
        return _of_timm_cfg(_timm_cfg(name))
    if family == "hf":
        return _of_hf(name)
    return IMAGENET


def _of_module(model: nn.Module) -> InputSpec:
    for kind, spec in NATIVE.values():
        if type(model) is kind:
            return _with_channels(_with_built_size(spec, model), model)
    cfg = getattr(model, "pretrained_cfg", None)
    if isinstance(cfg, Mapping):
        return _with_channels(_with_patch_size(_of_timm_cfg(cfg), model), model)
    config = getattr(model, "config", None)
    if hasattr(config, "num_labels"):
        return _with_channels(_of_hf_config(config, str(getattr(config, "_name_or_path", ""))), model)
    return _with_channels(_with_built_size(IMAGENET, model), model)


def _with_built_size(spec: InputSpec, model: nn.Module) -> InputSpec:
    """The spec with the model's ``image_size``, an attribute of the native networks and torchvision's ViT."""
    size = getattr(model, "image_size", None)
    return replace(spec, size=size) if isinstance(size, int) else spec


def _with_patch_size(spec: InputSpec, model: nn.Module) -> InputSpec:
    """The spec with the size a timm transformer was built for, which its configuration does not follow."""
    built = getattr(getattr(model, "patch_embed", None), "img_size", None)
    return replace(spec, size=int(built[0])) if isinstance(built, tuple) else spec


def _with_channels(spec: InputSpec, model: nn.Module) -> InputSpec:
    """The spec with the channels of the model's first convolution."""
    first = next((m for m in model.modules() if isinstance(m, nn.Conv2d)), None)
    if first is None or first.in_channels == spec.channels:
        return spec
    n = first.in_channels
    return replace(spec, channels=n, mean=(0.5,) * n, std=(0.5,) * n)


def _of_torchvision(name: str) -> InputSpec:
    models = torchvision_models()
    require_known("torchvision", name, models.list_models(module=models))
    chosen = models.get_model_weights(name).DEFAULT.transforms()
    return InputSpec(
        int(chosen.crop_size[0]),
        3,
        _floats(chosen.mean),
        _floats(chosen.std),
        str(chosen.interpolation.value),
    )


def _timm_cfg(name: str) -> Mapping[str, Any]:
    timm = timm_module()
    require_known("timm", name, timm.list_models(), known=timm.is_model(name))
    cfg: Mapping[str, Any] = timm.get_pretrained_cfg(name).to_dict()
    return cfg


def _of_timm_cfg(cfg: Mapping[str, Any]) -> InputSpec:
    channels, height, _ = cfg.get("input_size") or (3, 224, 224)
    mean, std = _floats(cfg.get("mean") or IMAGENET.mean), _floats(cfg.get("std") or IMAGENET.std)
    return InputSpec(int(height), int(channels), mean, std, cfg.get("interpolation") or "bilinear")


def _of_hf(name: str) -> InputSpec:
    """Read ``preprocessor_config.json``, and the size from ``config.json`` when that names none."""
    prepare = _json(hf_file(name, "preprocessor_config.json"))
    config = _json(hf_file(name, "config.json"))
    if not prepare:
        _log.warning("hf:%s has no preprocessor_config.json; ImageNet's mean and std are assumed", name)
    size = _hf_size(prepare.get("crop_size")) if prepare.get("do_center_crop") else None
    size = size or _hf_size(prepare.get("size")) or _hf_size(config.get("image_size")) or IMAGENET.size
    mean, std = prepare.get("image_mean") or IMAGENET.mean, prepare.get("image_std") or IMAGENET.std
    # Pillow's number for it: 2 is bilinear, 3 is bicubic.
    interpolation = "bicubic" if prepare.get("resample") == 3 else "bilinear"
    return InputSpec(size, len(mean), _floats(mean), _floats(std), interpolation)


def _of_hf_config(config: Any, name: str) -> InputSpec:
    spec = _of_hf(name) if name and hf_file(name, "preprocessor_config.json") else IMAGENET
    return replace(spec, size=_hf_size(getattr(config, "image_size", None)) or spec.size)


def _hf_size(value: object) -> int | None:
    """One side out of 224, [224, 224], {"height": 224, ...} or {"shortest_edge": 224}."""
    if isinstance(value, Mapping):
        value = value.get("height") or value.get("shortest_edge")
    if isinstance(value, (list, tuple)):
        value = value[0]
    return value if isinstance(value, int) else None


def _json(path: Path | None) -> dict[str, Any]:
    content = json.loads(path.read_text(encoding="utf-8")) if path else {}
    return content if isinstance(content, dict) else {}


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
