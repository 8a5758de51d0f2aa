"""Which layers are transformed, and with which ranks."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from torch import Tensor, nn

from residapt.errors import ModelError
from residapt.transform.calls import Calls, record_calls
from residapt.transform.config import TransformConfig, resolve_nonlinearity
from residapt.transform.initial import Transform
from residapt.transform.matrix import LayerMatrix, find_layers
from residapt.transform.names import matching
from residapt.transform.residual import ResidualTransform
from residapt.transform.vector import VectorTransform


def select_layers(model: nn.Module, config: TransformConfig) -> list[LayerMatrix]:
    """The layers that ``include``, ``exclude`` and ``features`` leave, biases split off where requested.

    Layers that ``include`` names one by one, without a wildcard, need not feed ``features``.
    """
    layers = list(find_layers(model))
    if not layers:
        raise ModelError(
            f"{type(model).__name__} has no layer that can be transformed. residapt transforms Linear, Conv1d/2d/3d, "
            "ConvTranspose1d/2d/3d and MultiheadAttention; use method='dann' to adapt without transforms."
        )
    names = [layer.name for layer in layers]
    chosen = _selected(config, names, {*_up_to_features(model, config.features, names), *config.include})
    matching(config.ranks, names, setting="transform.ranks")
    if not chosen:
        raise ModelError(
            f"transform.include={list(config.include)}, exclude={list(config.exclude)}, "
            f"freeze={list(config.freeze)}, features='{config.features}' leave no layer of {type(model).__name__} to "
            "transform; widen include, or use method='dann_flip'."
        )
    return [part for layer in layers if layer.name in chosen for part in _split_bias(layer, config.bias)]


def in_calling_order(model: nn.Module, config: TransformConfig, example: Tensor) -> TransformConfig:
    """The settings for layers that feed ``features`` by the order of calls, seen in a pass of ``example``.

    Where registration says the same, these are the settings as they are. Otherwise ``include`` names the layers one by
    one, so that whoever reads the settings later (an adapter, a checkpoint) finds the same layers without a pass.
    """
    names = [layer.name for layer in find_layers(model)]
    if config.features is None or not config.include:
        return config
    feeding = _up_to_features(model, config.features, names, record_calls(model, example))
    if feeding == _up_to_features(model, config.features, names):
        return config
    chosen = _selected(config, names, {*feeding, *config.include})
    return config.model_copy(update={"include": tuple(name for name in names if name in chosen)}) if chosen else config


def _selected(config: TransformConfig, names: Sequence[str], feeding: set[str]) -> set[str]:
    chosen = set(matching(config.include, names, setting="transform.include"))
    chosen -= set(matching(config.exclude, names, setting="transform.exclude"))
    return {name for name in chosen & feeding if not _is_frozen(name, config.freeze)}


def build_transform(layer: LayerMatrix, weight: Tensor, config: TransformConfig) -> Transform:
    """A transform of the right size for a layer, not yet initialised."""
    outputs, inputs = layer.weight_matrix(weight).shape
    left, right = start_ranks(layer, config)
    nonlinearity = resolve_nonlinearity(config.nonlinearity)
    has_bias = layer.bias is not None
    if config.form == "vector":
        made: Transform = VectorTransform(outputs, inputs, rank=left, has_bias=has_bias, nonlinearity=nonlinearity)
    else:
        bias_rank = config.bias_rank if has_bias and min(left, right) > 0 else 0
        made = ResidualTransform(
            outputs,
            inputs,
            left_rank=left,
            right_rank=right,
            bias_rank=bias_rank,
            nonlinearity=nonlinearity,
            has_bias=has_bias,
        )
    return made.to(weight)


def start_ranks(layer: LayerMatrix, config: TransformConfig) -> tuple[int, int]:
    """(l, r) of a layer's transform at the start."""
    left, right = config.left_rank, config.right_rank
    # Biases with a transform of their own follow their layer unless a pattern names them.
    owner = layer.name.removesuffix(".bias") if layer.kind == "vector" else layer.name
    for pattern, ranks in config.ranks.items():
        if fnmatch.fnmatchcase(layer.name, pattern) or fnmatch.fnmatchcase(owner, pattern):
            left, right = ranks
            break
    return (left, right) if min(left, right) > 0 else (0, 0)


def _up_to_features(
    model: nn.Module, features: str | None, names: Sequence[str], calls: Calls | None = None
) -> set[str]:
    """Names of the layers that feed the module ``features``: called, or else registered, before its end."""
    if features is None:
        return set(names)
    modules = [name for name, _ in model.named_modules()]
    if features not in modules:
        near = difflib.get_close_matches(features, modules, n=3, cutoff=0.3) or modules[1:4]
        raise ModelError(
            f"features='{features}' is not a module of {type(model).__name__}. Did you mean {', '.join(near)}?"
        )
    last = max(i for i, name in enumerate(modules) if name == features or name.startswith(f"{features}."))
    position = {name: i for i, name in enumerate(modules)}

    def feeds(owner: str) -> bool:
        called = None if calls is None else calls.feeds(owner, features)
        return position[owner] <= last if called is None else called

    return {name for name in names if feeds(_owner(name, position))}


def _is_frozen(layer: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern names the layer's module, or a module around it."""
    parts = layer.split(".")
    around = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return any(fnmatch.filter(around, pattern) for pattern in patterns)


def _owner(layer: str, modules: Mapping[str, int]) -> str:
    """The module that holds a layer: itself, or the attention block around ``block.in_proj.q``."""
    while layer not in modules:
        layer = layer.rpartition(".")[0]
    return layer


def _split_bias(layer: LayerMatrix, mode: str) -> list[LayerMatrix]:
    if layer.bias is None or mode == "joint":
        return [layer]
    weight = replace(layer, bias=None)
    if mode == "shared":
        return [weight]
    return [weight, LayerMatrix(f"{layer.name}.bias", layer.bias, None, "vector", layer.rows)]
