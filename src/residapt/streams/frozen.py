"""Stages that stay as they are in both streams: no gradient, no transform, batch norm in evaluation mode."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterator, Sequence

from torch import nn

from residapt.errors import ModelError


def frozen_names(model: nn.Module, patterns: Sequence[str]) -> tuple[str, ...]:
    """Names of the modules that the patterns name; a pattern that names none is refused with near names."""
    names = [name for name, _ in model.named_modules() if name]
    found: list[str] = []
    for pattern in patterns:
        hits = fnmatch.filter(names, pattern)
        if not hits:
            near = difflib.get_close_matches(pattern, names, n=3, cutoff=0.3) or names[:3]
            raise ModelError(
                f"freeze: the pattern '{pattern}' matches none of the {len(names)} modules of "
                f"{type(model).__name__}. Modules have names like {', '.join(near)}."
            )
        found += hits
    return tuple(dict.fromkeys(found))


def frozen_modules(model: nn.Module, names: Sequence[str]) -> Iterator[nn.Module]:
    """The modules of these names."""
    for name in names:
        yield model.get_submodule(name)
