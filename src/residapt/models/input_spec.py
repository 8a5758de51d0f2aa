"""What images a network wants: size, channels and normalisation."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, model_validator
from torch import nn

from residapt.errors import ConfigError
from residapt.models.native import DTN, GaninLeNet, LeNet, SvhNet, UavNet
from residapt.models.zoo import hf_file, require_known, timm_module, torchvision_models, unknown_spec
from residapt.settings import LARGEST, Settings

_log = logging.getLogger(__name__)


class InputSpec(Settings):
    """How an image becomes the network's input."""

    size: int = Field(ge=1, le=LARGEST)
    """Height and width in pixels."""
    channels: int = Field(ge=1, le=10_000)
    """1 for grey, 3 for RGB."""
    mean: tuple[float, ...]
    """Subtracted from each channel of an image with values in [0, 1]; one value, or one for each channel."""
    std: tuple[float, ...]
    """Each channel is divided by it after that."""
    interpolation: str = "bilinear"
    """Used for resizing: "bilinear" or "bicubic"."""

    @model_validator(mode="after")
    def _per_channel(self) -> InputSpec:
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in (1, self.channels):
                raise ValueError(
                    f"{name} needs one value, or one for each of {self.channels} channels, got {len(values)}"
                )
        if min(self.std) <= 0:
            raise ValueError(f"std must be positive, got {list(self.std)}")
        return self


IMAGENET = InputSpec(size=224, channels=3, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))


class Native(NamedTuple):
    """A network that residapt itself defines, and its input."""

    network: type[nn.Module]
    input: InputSpec


_GREY = InputSpec(size=28, channels=1, mean=(0.5,), std=(0.5,))
_RGB = InputSpec(size=32, channels=3, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
NATIVE = {
    "lenet": Native(LeNet, _GREY),
    "ganin_lenet": Native(GaninLeNet, _GREY),
    "svhnet": Native(SvhNet, _RGB),
    "dtn": Native(DTN, _RGB),
    "uavnet": Native(UavNet, _GREY.model_copy(update={"size": 40})),
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
    return spec.model_copy(update={"size": size}) if isinstance(size, int) else spec


def _with_patch_size(spec: InputSpec, model: nn.Module) -> InputSpec:
    """The spec with the size a timm transformer was built for, which its configuration does not follow."""
    built = getattr(getattr(model, "patch_embed", None), "img_size", None)
    return spec.model_copy(update={"size": int(built[0])}) if isinstance(built, tuple) else spec


def _with_channels(spec: InputSpec, model: nn.Module) -> InputSpec:
    """The spec with the channels of the model's first convolution."""
    first = next((m for m in model.modules() if isinstance(m, nn.Conv2d)), None)
    if first is None or first.in_channels == spec.channels:
        return spec
    n = first.in_channels
    return spec.model_copy(update={"channels": n, "mean": (0.5,) * n, "std": (0.5,) * n})


def _of_torchvision(name: str) -> InputSpec:
    models = torchvision_models()
    require_known("torchvision", name, models.list_models(module=models))
    chosen = models.get_model_weights(name).DEFAULT.transforms()
    return InputSpec(
        size=int(chosen.crop_size[0]),
        channels=3,
        mean=_floats(chosen.mean),
        std=_floats(chosen.std),
        interpolation=str(chosen.interpolation.value),
    )


def _timm_cfg(name: str) -> Mapping[str, Any]:
    timm = timm_module()
    require_known("timm", name, timm.list_models(), known=timm.is_model(name))
    cfg: Mapping[str, Any] = timm.get_pretrained_cfg(name).to_dict()
    return cfg


def _of_timm_cfg(cfg: Mapping[str, Any]) -> InputSpec:
    channels, height, _ = cfg.get("input_size") or (3, 224, 224)
    mean, std = _floats(cfg.get("mean") or IMAGENET.mean), _floats(cfg.get("std") or IMAGENET.std)
    interpolation = cfg.get("interpolation") or "bilinear"
    values = {"size": height, "channels": channels, "mean": mean, "std": std, "interpolation": interpolation}
    return InputSpec.parse(values, where="pretrained_cfg")


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
    values = {"size": size, "channels": len(mean), "mean": mean, "std": std, "interpolation": interpolation}
    return InputSpec.parse(values, where=f"hf:{name}")


def _of_hf_config(config: Any, name: str) -> InputSpec:
    spec = _of_hf(name) if name and hf_file(name, "preprocessor_config.json") else IMAGENET
    return spec.model_copy(update={"size": _hf_size(getattr(config, "image_size", None)) or spec.size})


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
