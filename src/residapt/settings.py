"""Base of every typed configuration: unknown keys and wrong types are refused by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from residapt.errors import ConfigError

S = TypeVar("S", bound="Settings")


class Settings(BaseModel):
    """A frozen group of settings. Build it with :meth:`parse` to get errors made for users."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)

    @classmethod
    def parse(cls: type[S], values: Mapping[str, Any], *, where: str = "configuration") -> S:
        """Validate ``values``; every problem is named in one :class:`ConfigError`."""
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise ConfigError("\n".join(_explain(cls, error, where))) from None


def _explain(cls: type[BaseModel], error: ValidationError, where: str) -> Iterator[str]:
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            nearest = difflib.get_close_matches(key, list(field_names(cls)), n=1, cutoff=0.4)
            hint = f" Did you mean '{nearest[0]}'?" if nearest else ""
            yield f"{where}: there is no setting '{key}'.{hint}"
        else:
            message = problem["msg"].removeprefix("Value error, ")
            yield f"{where}: {key} = {problem['input']!r} cannot be used: {message}."


def field_names(cls: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """All dotted keys below a settings class, groups included."""
    for name, field in cls.model_fields.items():
        yield prefix + name
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from field_names(field.annotation, f"{prefix}{name}.")
