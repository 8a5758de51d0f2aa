"""One typed tree of settings for a whole run: read from TOML, changed by ``a.b=c``, written whole into the run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import tomli_w
from pydantic import BaseModel, Field, model_validator

from residapt.data.domains import Balance
from residapt.errors import ConfigError
from residapt.methods.config import MethodConfig
from residapt.methods.recipes import RECIPES, split_plus
from residapt.models.input_spec import LARGEST
from residapt.settings import Seed, Settings, merged
from residapt.storage.metadata import WIDEST
from residapt.train.config import TrainConfig
from residapt.train.symptoms import HealthConfig

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class ModelConfig(Settings):
    """The network."""

    spec: str = "lenet"
    """lenet, svhnet, dtn, torchvision:NAME, timm:NAME, hf:NAME or package.module:factory."""
    weights: str | None = None
    """File with weights to start from (safetensors, or .pth read without running code)."""
    base: str | None = None
    """Run directory, or file with weights, of a network that was trained on the source: it is not trained again."""
    bottleneck: int | None = Field(None, ge=1, le=WIDEST)
    """Width of a bottleneck layer before a new classifier; the domain classifier then reads its output."""
    standardise: bool = False
    """Give the network a first layer that standardises each image by itself: mean 0, standard deviation 1. A base goes
    on as it was trained."""


class DataConfig(Settings):
    """Where images are, and how they become tensors."""

    source: str | None = None
    """Folder with one folder of images for each class."""
    target: str | None = None
    """Folder with unlabelled images, at any depth."""
    target_labels: str | None = None
    """A few labelled target images: a CSV file with the columns path and class, or a folder of class folders."""
    evaluate: str | None = None
    """Folder with one folder of images for each class, scored at the end and never trained on."""
    positive: str | None = None
    """The class to be found: average precision and the precision-recall curve are of it against the others. None
    takes, of two classes, the one with fewer images in the scored set."""
    balance: Balance = "as-is"
    """as-is, or classes: batches of labelled images, source and target, that show every class equally often."""
    image_size: int | None = Field(None, ge=8, le=LARGEST)
    """Height and width in pixels; None takes what the network expects."""
    channels: Literal[1, 3] | None = None
    """1 for grey, 3 for colour; None takes what the network expects."""
    augment: bool = True
    """Random crops and flips of training images (flips only where the network reads photographs)."""
    holdout: float = Field(0.1, gt=0, lt=1)
    """Share of the labelled source images kept for early stopping and for the scores."""
    cache: float = Field(4.0, ge=0)
    """Gigabytes of decoded images that may be kept in memory; more are decoded anew for every batch."""
    score_images: int = Field(5000, ge=2)
    """Most target images on which the label-free scores are computed."""


class SourceConfig(Settings):
    """Training of the source network, where there is none yet."""

    steps: int | None = Field(None, ge=0)
    """Most optimiser steps; None chooses by the size of the data."""
    batch_size: int = Field(64, ge=1)
    """Images in a step."""
    lr: float = Field(1e-3, gt=0)
    """Learning rate of Adam; a fifth of it where it is not set and the network starts from weights."""
    head: float = Field(1.0, gt=0)
    """Factor of that learning rate for the classifier; 5 where it is not set and the network starts from weights."""
    checks: int = Field(20, ge=1)
    """Evaluations on the held-out source in the whole training."""
    weight_decay: float = Field(2.5e-5, ge=0)
    """L2 penalty."""
    patience: int = Field(3, ge=1)
    """Evaluations on the held-out source without gain before training stops."""


class Config(MethodConfig):
    """Everything about a run."""

    method: str = "rpt"
    """How to adapt; `residapt methods` lists the names. ``rpt+`` is ``rpt`` by the recipe ``plus``."""
    recipe: Literal["paper", "plus"] = "paper"
    """Settings that go together: the paper's, or those that also fit the target's class frequencies and make sure
    predictions (docs/beyond.md). What is set beside it counts instead."""
    seed: Seed = 0
    """Seed of everything: order of samples, start of transforms and domain classifier, dropout."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to compute."""
    precision: Literal["float32", "bf16", "fp16"] = "float32"
    """Mixed precision of the forward pass."""
    select: str = "last"
    """Which checkpoint is handed out: the last, or the best by a label-free score."""
    force: bool = False
    """Hand out the adapted model even if it looks worse than the source model."""
    minutes: float = Field(20.0, ge=0)
    """Most minutes of training where no steps are set: a slow machine takes fewer steps. 0 sets no limit."""
    model: ModelConfig = ModelConfig()
    """The network."""
    data: DataConfig = DataConfig()
    """Where images are, and how they become tensors."""
    source: SourceConfig = SourceConfig()
    """Training of the source network."""
    train: TrainConfig = TrainConfig()
    """The adaptation loop."""
    health: HealthConfig = HealthConfig()
    """When the health monitor speaks."""

    @model_validator(mode="before")
    @classmethod
    def _with_recipe(cls, values: Any) -> Any:
        """The settings of the recipe under those that are given."""
        if not isinstance(values, Mapping):
            return values
        method, plus = split_plus(values["method"]) if isinstance(values.get("method"), str) else (None, False)
        given = {**values, "method": method, "recipe": "plus"} if plus else values
        name = given.get("recipe")
        return merged(RECIPES[name], given) if isinstance(name, str) and name in RECIPES else given


def load_config(
    path: Path | None = None, overrides: Sequence[str] = (), base: Mapping[str, Any] | None = None
) -> Config:
    """Defaults, then ``base``, then the file, then ``a.b=c`` overrides; what comes later wins."""
    values: Mapping[str, Any] = base or {}
    if path is not None:
        values = merged(values, read_toml(path))
    for text in overrides:
        values = merged(values, parse_override(text))
    return Config.parse(values, where=str(path) if path and not overrides else "configuration")


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file, or an error that names the line."""
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


def write_config(config: BaseModel, path: Path) -> None:
    """Write every setting that has a value; TOML has no null, and what is absent is None."""
    path.write_text(tomli_w.dumps(_without_none(config.model_dump(mode="json"))), encoding="utf-8")


def describe_config(config: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any, str]]:
    """(dotted key, value, explanation) of every setting."""
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        if isinstance(value, BaseModel):
            yield from describe_config(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value, field.description or ""


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in values.items()
        if value is not None
    }
