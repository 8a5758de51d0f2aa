"""One typed tree of settings for a whole run: read from TOML, changed by ``a.b=c``, written whole into the run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, ClassVar, Literal

import tomli_w
from pydantic import BaseModel, Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from residapt.data.config import Balance, ViewsConfig
from residapt.errors import ConfigError
from residapt.methods.config import MethodConfig
from residapt.methods.names import SOURCE_FREE
from residapt.methods.recipes import RECIPES, recipe_settings
from residapt.settings import LARGEST, Seed, Settings, merged
from residapt.train.config import HealthConfig, TrainConfig

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


Selection = Literal[
    "last",
    "source_accuracy",
    "entropy",
    "infomax",
    "bnm",
    "snd",
    "class_ami",
    "dev",
    "devn",
    "mmd_outputs",
]
"""What ``select`` can be: last, or a label-free score."""
FREEZE = ("auto", "none", "base")
"""What ``freeze`` can be besides patterns."""
FOLLOWS = {
    "transform.freeze": "freeze",
    "train_source": "freeze",
    "train.seed": "seed",
    "transform.seed": "seed",
    "discrepancy.seed": "seed",
}
"""Fields that follow from a setting at the top level; they are not settings of their own."""


class ModelConfig(Settings):
    """The network.

    Example:
        >>> ModelConfig(spec="timm:resnet50", bottleneck=256).standardise
        False
    """

    spec: str = "lenet"
    """lenet, svhnet, dtn, torchvision:NAME, timm:NAME, hf:NAME or package.module:factory."""
    weights: str | None = None
    """Weights to start from: a file (safetensors, or .pth read without running code). None takes the pre-trained
    weights of timm:, torchvision: and hf: networks; ``none`` starts from random weights."""
    base: str | None = None
    """Run directory, or weights file, of a network already trained on the source; it is not trained again."""
    adapters: str | None = None
    """Folder with adapters of the base (freeze = "base"): training starts from the nearest, chosen without labels, the
    base run's own among them; ``none`` starts anew."""
    bottleneck: int | None = Field(None, ge=1, le=LARGEST)
    """Width of a bottleneck layer before a new classifier; the domain classifier then reads its output."""
    standardise: bool = False
    """Standardise each image by itself (mean 0, standard deviation 1) in a first layer of the network. A base keeps
    what it was trained with."""


class DataConfig(Settings):
    """Where images are, and how they become tensors.

    Example:
        >>> DataConfig(source="photos", target="new_site").balance
        'as-is'
    """

    source: str | None = None
    """Folder with one folder of images for each class, or a CSV file with the columns path and class."""
    target: str | None = None
    """Folder with unlabelled images, at any depth."""
    target_labels: str | None = None
    """Labelled target images: a CSV file with the columns path and class, or a folder of class folders."""
    evaluate: str | None = None
    """Labelled images, given like the source, scored at the end and never trained on."""
    positive: str | None = None
    """Positive class for average precision and the precision-recall curve. None takes, of two classes, the one with
    fewer images in the scored set."""
    balance: Balance = "as-is"
    """as-is, or classes: batches of labelled images, source and target, that show every class equally often."""
    image_size: int | None = Field(None, ge=8, le=LARGEST)
    """Height and width in pixels; None takes what the network expects."""
    channels: Literal[1, 3] | None = None
    """1 for grey, 3 for colour; None takes what the network expects."""
    augment: bool = True
    """Random crops and flips of training images (flips only where the network reads photographs)."""
    holdout: ClassVar[float] = 0.1
    """Share of the labelled source images held out for early stopping and for the scores."""
    cache_gb: float = Field(20.0, ge=0)
    """Gigabytes of decoded images on disk, for all runs of this machine (residapt cache); 0 keeps none."""
    workers: int | None = Field(None, ge=0)
    """Threads that prepare the next batches while the present one trains; None takes as many as are of use. They change
    nothing but the time."""
    score_images: ClassVar[int] = 5000
    """Largest number of target images on which the label-free scores are computed."""


class PretrainConfig(Settings):
    """Training of the source network, where it is not trained yet.

    Example:
        >>> PretrainConfig(steps=500).lr
        0.001
    """

    steps: int | None = Field(None, ge=0)
    """Largest number of optimiser steps; None chooses by the size of the data."""
    lr: float = Field(1e-3, gt=0)
    """Learning rate of Adam; unless set, a fifth of it where the network starts from pre-trained weights."""
    head: float = Field(1.0, gt=0)
    """Factor of that learning rate for the classifier; unless set, 5 where the network has pre-trained weights."""
    weight_decay: ClassVar[float] = 2.5e-5
    """L2 penalty."""
    patience: ClassVar[int] = 3
    """Evaluations on the held-out source without improvement before training stops."""
    allow_chance: bool = False
    """Adapt even a source network that is no better than guessing on the held-out source images."""


class Config(Settings):
    """Everything about a run.

    The settings of the method stand at the top level for users, in files, on the command line and in ``parse``:
    ``rank.weight``, ``discrepancy.weight``. In code they are ``config.method_config.rank.weight``.

    Example:
        >>> config = Config.parse({"method": "dann", "pretrain": {"steps": 500}, "discrepancy": {"weight": 0.5}})
        >>> config.pretrain.steps, config.method_config.discrepancy.weight
        (500, 0.5)
        >>> config.with_group("discrepancy", weight=1.0).method_config.discrepancy.weight
        1.0
    """

    inlined: ClassVar[str] = "method_config"

    method: str = "rpt"
    """How to adapt; `residapt methods` lists the names."""
    recipe: str = "default"
    """Named set of settings: default, paper (as published), or plus, which also fits the target's class frequencies.
    Explicit settings override it."""
    seed: Seed = 0
    """Seed of everything: order of samples, start of transforms and domain classifier, dropout."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to compute."""
    precision: Literal["float32", "bf16", "fp16"] = "float32"
    """Mixed precision of the forward pass."""
    freeze: Literal["auto", "none", "base"] | tuple[str, ...] = "auto"
    """Which layers stay as they are. auto: as many first stages of a pre-trained network as the time allowed asks for;
    none: no layer; patterns (``conv1``, ``layer1``): the modules of these names, in both streams, without transforms;
    base: the whole source network, batch-norm statistics included, while transforms work on all layers."""
    select: Selection = "last"
    """Which checkpoint is the result: the last, or the best by a label-free score."""
    force: bool = False
    """Select the adapted network even if it looks worse than the source network."""
    restarts: int = Field(1, ge=1, le=100)
    """How many times the whole run is made, from different seeds; the one that the others agree with is selected."""
    minutes: float = Field(20.0, ge=0)
    """Longest training in minutes where no steps are set: a slow machine takes fewer steps. 0 sets no limit."""
    model: ModelConfig = ModelConfig()
    """The network."""
    data: DataConfig = DataConfig()
    """Where images are, and how they become tensors."""
    views: ViewsConfig = ViewsConfig()
    """Outputs of frozen stages."""
    pretrain: PretrainConfig = PretrainConfig()
    """Training of the source network."""
    train: TrainConfig = TrainConfig()
    """The adaptation loop."""
    health: HealthConfig = HealthConfig()
    """Thresholds of the health monitor."""
    method_config: MethodConfig = MethodConfig()
    """Settings of the method."""

    @field_validator("recipe")
    @classmethod
    def _known_recipe(cls, name: str) -> str:
        if name not in RECIPES:
            raise ValueError(f"the recipes are {', '.join(RECIPES)}")
        return name

    @field_validator("freeze", mode="before")
    @classmethod
    def _as_patterns(cls, freeze: Any) -> Any:
        found = _patterns(freeze)
        if not found or not (found in FREEZE or all(isinstance(pattern, str) for pattern in found)):
            raise ValueError(f"write {', '.join(FREEZE)}, or name patterns of modules, separated by commas")
        return found

    @model_validator(mode="before")
    @classmethod
    def _from_flat(cls, values: Any) -> Any:
        """The settings of the recipe under the given ones, those of the method gathered into their group."""
        if not isinstance(values, Mapping):
            return values
        if values.get("method") in SOURCE_FREE:
            values = {"recipe": "source-free", **values}
        named = (values.get(name, cls.model_fields[name].default) for name in ("recipe", "method"))
        recipe, method_name = (name if isinstance(name, str) else "" for name in named)
        given = merged(recipe_settings(recipe, method_name), values)
        for name, source in FOLLOWS.items():
            if _is_given(given, name):
                raise ValueError(f"{name} cannot be set by itself, it follows from {source}. Set {source} instead")
        method = {key: given.pop(key) for key in tuple(given) if key in MethodConfig.model_fields}
        if "freeze" in given:
            method = _with_freeze(method, _patterns(given["freeze"]))
        return {"method_config": method, **given}

    @model_serializer(mode="wrap")
    def _to_flat(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = handler(self)
        method = values.pop("method_config", {})
        found = {**values, **method}
        for name in FOLLOWS:
            *groups, own = name.split(".")
            reduce(lambda place, group: place.get(group, {}), groups, found).pop(own, None)
        return found

    def group(self, name: str) -> Settings:
        """A group of settings by the name that users give it."""
        found: Settings = getattr(self.method_config if name in MethodConfig.model_fields else self, name)
        return found

    def with_group(self, name: str, **values: Any) -> Config:
        """The configuration with some settings of a group changed; the values are not validated."""
        changed = self.group(name).model_copy(update=values)
        if name not in MethodConfig.model_fields:
            return self.model_copy(update={name: changed})
        method = self.method_config.model_copy(update={name: changed})
        return self.model_copy(update={"method_config": method})

    def with_frozen(self, names: tuple[str, ...]) -> Config:
        """The configuration with these modules frozen."""
        return self.with_group("transform", freeze=names).model_copy(update={"freeze": names})

    @property
    def wants_source_free(self) -> bool:
        """Whether there is a trained network and no source folder, and no method is set: then one that needs none."""
        return self.data.source is None and self.model.base is not None and "method" not in self.model_fields_set

    def is_set(self, group: str, name: str) -> bool:
        """Whether a setting of a group was given, by the user or by the recipe."""
        return name in self.group(group).model_fields_set


def load_config(
    path: Path | None = None,
    overrides: Sequence[str] = (),
    base: Mapping[str, Any] | None = None,
    *,
    options: Mapping[str, Any] | None = None,
) -> Config:
    """Defaults, then ``base``, the file, ``options`` and ``a.b=c`` overrides; what comes later wins.

    Args:
        path: A TOML file.
        overrides: Texts of the form ``rank.weight=0.1``.
        base: Nested values under those of the file.
        options: Values by dotted key, for instance of command-line options.
    """
    values: Mapping[str, Any] = base or {}
    if path is not None:
        values = merged(values, read_toml(path))
        Config.parse(values, where=f"'{path}'")  # a mistake in the file is reported with its name
    values = merged(values, from_dotted(options or {}))
    for text in overrides:
        values = merged(values, parse_override(text))
    return Config.parse(values)


def _is_given(values: Any, key: str) -> bool:
    """Whether nested values have something under this dotted key."""
    for part in key.split("."):
        if not isinstance(values, Mapping) or part not in values:
            return False
        values = values[part]
    return True


def _patterns(freeze: Any) -> str | tuple[Any, ...]:
    """One of the words, or patterns; nothing where it is neither."""
    if isinstance(freeze, str):
        return freeze if freeze in FREEZE else tuple(part.strip() for part in freeze.split(",") if part.strip())
    return tuple(freeze) if isinstance(freeze, (list, tuple)) else ()


def _with_freeze(method: dict[str, Any], freeze: Any) -> dict[str, Any]:
    """Settings of the method with those that follow from ``freeze``."""
    if freeze == "base":
        return {**method, "train_source": False}
    transform = method.get("transform", {})
    if isinstance(freeze, str) or not isinstance(transform, Mapping):
        return method
    return {**method, "transform": {**transform, "freeze": freeze}}


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file, or an error with file and line."""
    try:
        content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        return content
    except FileNotFoundError:
        raise ConfigError(f"configuration file '{path}' does not exist.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"configuration file '{path}' cannot be read as TOML: {error}.") from None


def parse_override(text: str) -> dict[str, Any]:
    """``rank.weight=0.1`` as nested values; the right side is TOML, or a plain word."""
    key, equals, raw = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {text!r}: write it as key=value, for example --set rank.weight=0.1.")
    try:
        value: Any = tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        value = raw.strip()
    except RecursionError:
        raise ConfigError(f"--set {key.strip()}=...: the value is nested too deep.") from None
    for part in reversed(key.strip().split(".")):
        value = {part: value}
    return dict(value)


def from_dotted(values: Mapping[str, Any]) -> dict[str, Any]:
    """``{"rank.weight": 0.1, "train": {"steps": 5}}`` as nested values."""
    nested: dict[str, Any] = {}
    for key, value in values.items():
        for part in reversed(key.split(".")):
            value = {part: value}
        nested = merged(nested, value)
    return nested


def write_config(config: BaseModel, path: Path, *, given: bool = False) -> None:
    """Write every setting that has a value as TOML, which has no null: an absent setting is None.

    With ``given``, settings that nobody has given are left out, so that they can still be chosen.
    """
    values = config.model_dump(mode="json", exclude_unset=given)
    path.write_text(tomli_w.dumps(_without_none(values)), encoding="utf-8")


def describe_config(config: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any, str]]:
    """(dotted key, value, explanation) of every setting."""
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        if f"{prefix}{name}" in FOLLOWS:
            continue
        if isinstance(config, Settings) and name == config.inlined:
            yield from describe_config(value, prefix)
        elif isinstance(value, BaseModel):
            yield from describe_config(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value, field.description or ""


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in values.items()
        if value is not None
    }
