"""Base of every typed configuration: unknown keys and wrong types are refused by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, TypeGuard, TypeVar, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from residapt.errors import ConfigError

S = TypeVar("S", bound="Settings")
Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""A whole number of 64 bits, which is what random generators take."""
LARGEST = 65_536
"""Largest height and width of images, and width of a layer: more is a mistake, not a wish."""
_LONGEST = 200


class Settings(BaseModel):
    """A frozen group of settings. Build it with :meth:`parse` to get errors made for users."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)
    inlined: ClassVar[str] = ""
    """A field whose own settings stand beside it in files and messages: ``rank.weight``, not ``field.rank.weight``."""

    @classmethod
    def parse(cls: type[S], values: Mapping[str, Any], *, where: str = "configuration") -> S:
        """Validate ``values``; every problem is named in one :class:`ConfigError`."""
        if not isinstance(values, Mapping):
            raise ConfigError(f"{where}: expected a group of settings, got {_short(values)}.")
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise ConfigError("\n".join(_explain(cls, error, where))) from None


def _explain(cls: type[BaseModel], error: ValidationError, where: str) -> Iterator[str]:
    for problem in error.errors():
        parts = problem["loc"][1:] if problem["loc"][:1] == (_inlined(cls),) else problem["loc"]
        key = ".".join(str(part) for part in parts)
        if problem["type"] == "extra_forbidden":
            nearest = difflib.get_close_matches(key, list(field_names(cls)), n=1, cutoff=0.4)
            hint = f" Did you mean '{nearest[0]}'?" if nearest else ""
            yield f"{where}: there is no setting '{key}'.{hint}"
        elif problem["type"] == "missing":
            yield f"{where}: the setting '{key}' is missing."
        else:
            message = problem["msg"].removeprefix("Value error, ")
            yield (
                f"{where}: {key} = {_short(problem['input'])} cannot be used: {message}."
                if key
                else f"{where}: {message}."
            )


def _short(value: object) -> str:
    """The value as it was given; of a long one the beginning, for it may be a whole file."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def field_names(cls: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """All dotted keys below a settings class, groups included."""
    for name, field in cls.model_fields.items():
        if name == _inlined(cls):
            yield from field_names(field.annotation, prefix)  # type: ignore[arg-type]
            continue
        yield prefix + name
        if is_group(field.annotation):
            yield from field_names(field.annotation, f"{prefix}{name}.")


def is_group(annotation: Any) -> TypeGuard[type[BaseModel]]:
    """Whether a field holds settings of its own. On Python 3.10 ``tuple[int, ...]`` calls itself a type as well."""
    return get_origin(annotation) is None and isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _inlined(cls: type[BaseModel]) -> str:
    """The inlined field of a settings class, or nothing."""
    return cls.inlined if issubclass(cls, Settings) else ""


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Nested values of both; where they differ the second wins."""
    values = dict(first)
    for key, value in second.items():
        if isinstance(value, Mapping):
            below = values.get(key)
            value = merged(below if isinstance(below, Mapping) else {}, value)
        values[key] = value
    return values
