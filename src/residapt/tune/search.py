"""The search space: ``key=log:LOW..HIGH``, ``key=range:LOW..HIGH`` or ``key=choice:A,B,C`` for each setting."""

from __future__ import annotations

import json
import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from residapt.config import Config, from_dotted, parse_override
from residapt.errors import ConfigError
from residapt.methods.config import MethodConfig
from residapt.settings import is_group, merged

FORMS = "KEY=log:LOW..HIGH, KEY=range:LOW..HIGH or KEY=choice:A,B,C"
EXAMPLE = "for example --search discrepancy.weight=log:0.1..3"
SAME_DATA = "all trials must see the same data"
NO_LABELS = "target labels are never used in a search"
NOT_SEARCHED = {
    "data.source": SAME_DATA,
    "data.target": SAME_DATA,
    "data.evaluate": NO_LABELS,
    "data.target_labels": NO_LABELS,
    "force": "a network that the guard rejects does not count in a search",
    "device": "it changes only how long a trial takes",
}
"""Settings that cannot be searched over, with the reason."""
PRETRAIN = "pretrain"
"""The group of settings for training the source network."""
CHANGES_SOURCE = (f"{PRETRAIN}.", "model.", "data.", "seed")
"""Prefixes of settings that change the source network or the held-out images: trials cannot share one then."""


@dataclass(frozen=True)
class Dimension:
    """One setting to search over."""

    text: str
    """The expression as it was given."""
    key: str
    """Dotted name of the setting."""
    kind: Literal["int", "float", "choice"]
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    choices: tuple[str, ...] = ()
    """Values as JSON, which distinguishes 1, 1.0, "1" and true."""

    def value(self, suggested: Any) -> Any:
        """The setting's value for a suggestion of the sampler."""
        return json.loads(suggested) if self.kind == "choice" else suggested

    def examples(self) -> list[Any]:
        """Both ends of the range, or all choices: each must be a valid value of the setting."""
        if self.kind == "choice":
            return [json.loads(choice) for choice in self.choices]
        return [int(self.low), int(self.high)] if self.kind == "int" else [self.low, self.high]


def parse_search(texts: Sequence[str], given: Config) -> tuple[Dimension, ...]:
    """The dimensions of a search, checked against the configuration that all trials share."""
    if not texts:
        raise ConfigError(f"no setting to search over. Give at least one, {EXAMPLE}.")
    space = tuple(_parse(text) for text in texts)
    for number, dimension in enumerate(space):
        if dimension.key in [other.key for other in space[:number]]:
            raise ConfigError(f"--search {dimension.text!r}: '{dimension.key}' was given already.")
        for value in dimension.examples():
            with_values(given, {dimension.key: value}, where=f"--search {dimension.text!r}")
    return space


def with_values(given: Config, values: Mapping[str, Any], *, where: str = "tune") -> Config:
    """The configuration with some settings changed; settings left at their defaults stay unset."""
    base = given.model_dump(mode="json", exclude_unset=True)
    return Config.parse(merged(base, from_dotted(values)), where=where)


def shares_source(space: Sequence[Dimension]) -> bool:
    """Whether all trials can start from the same source network."""
    return not any(dimension.key.startswith(CHANGES_SOURCE) for dimension in space)


def _parse(text: str) -> Dimension:
    key, equals, rest = (part.strip() for part in text.partition("="))
    kind, colon, values = rest.partition(":")
    if not (key and equals and colon) or kind not in ("log", "range", "choice"):
        raise ConfigError(f"--search {text!r}: write it as {FORMS}; {EXAMPLE}.")
    if key in NOT_SEARCHED:
        raise ConfigError(f"--search {text!r}: '{key}' cannot be searched over: {NOT_SEARCHED[key]}.")
    if kind == "choice":
        return Dimension(text, key, "choice", choices=_choices(text, values))
    return _range(text, key, values, log=kind == "log")


def _choices(text: str, values: str) -> tuple[str, ...]:
    """Values of TOML separated by commas, or plain words."""
    read = parse_override(f"choices=[{values}]")["choices"]
    found = read if isinstance(read, list) else [parse_override(f"one={word}")["one"] for word in values.split(",")]
    labels = tuple(dict.fromkeys(json.dumps(value) for value in found if value != ""))
    if len(labels) < 2:
        raise ConfigError(f"--search {text!r}: give at least two different values.")
    return labels


def _range(text: str, key: str, values: str, *, log: bool) -> Dimension:
    kind = _number_kind(text, key)
    first, dots, last = values.partition("..")
    try:
        low, high = float(first), float(last)
    except ValueError:
        low = high = math.nan
    if not dots or not (math.isfinite(low) and math.isfinite(high)):
        raise ConfigError(f"--search {text!r}: '{values}' is not a range; write it as LOW..HIGH with two numbers.")
    if low >= high:
        raise ConfigError(f"--search {text!r}: LOW must be below HIGH, got {low:g} and {high:g}.")
    if log and low <= 0:
        raise ConfigError(f"--search {text!r}: log needs LOW above 0, got {low:g}. Use range:{values} instead.")
    if kind == "int" and not (low.is_integer() and high.is_integer()):
        raise ConfigError(f"--search {text!r}: '{key}' is a whole number, so both ends must be, got '{values}'.")
    return Dimension(text, key, kind, low, high, log)


def _number_kind(text: str, key: str) -> Literal["int", "float"]:
    """Whether a setting is an int or a float; others have no range. An unknown key is an error."""
    parts = key.split(".")
    annotation = _annotation(MethodConfig if parts[0] in MethodConfig.model_fields else Config, parts)
    if annotation is None:
        Config.parse(from_dotted({key: 1}), where=f"--search {text!r}")
    kinds = set(get_args(annotation)) if get_origin(annotation) in (Union, types.UnionType) else {annotation}
    kinds.discard(type(None))
    if kinds == {int}:
        return "int"
    if kinds == {float}:
        return "float"
    raise ConfigError(f"--search {text!r}: '{key}' is not a number; use {key}=choice:A,B,C.")


def _annotation(model: type[BaseModel], parts: Sequence[str]) -> Any:
    """The type of a setting; None if there is no such setting."""
    field = model.model_fields.get(parts[0])
    if field is None or len(parts) == 1:
        return None if field is None else field.annotation
    inner = field.annotation
    return _annotation(inner, parts[1:]) if is_group(inner) else None
