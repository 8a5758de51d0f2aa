"""Names of modules, layers and parameters: which of them a pattern matches, and what lies inside of what."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterable, Sequence

from torch import nn

from residapt.errors import ModelError


def matching(patterns: Iterable[str], names: Sequence[str], *, setting: str, what: str = "layers") -> tuple[str, ...]:
    """The names that a pattern matches, each once; a pattern that matches none is refused with near names.

    Args:
        patterns: As for :mod:`fnmatch`: ``layer4.*``.
        names: All names.
        setting: Where the patterns come from, for the message.
        what: What the names are of, for the message.
    """
    found: list[str] = []
    for pattern in patterns:
        hits = fnmatch.filter(names, pattern)
        if not hits:
            near = difflib.get_close_matches(pattern, names, n=3, cutoff=0.3) or names[:3]
            raise ModelError(
                f"{setting}: the pattern '{pattern}' matches none of the {len(names)} {what}. "
                f"They have names like {', '.join(near)}."
            )
        found += hits
    return tuple(dict.fromkeys(found))


def module_names(model: nn.Module) -> list[str]:
    """Names of all modules below the network itself."""
    return [name for name, _ in model.named_modules() if name]


def is_inside(name: str, modules: Iterable[str]) -> bool:
    """Whether the module ``name`` is one of ``modules`` or below one of them."""
    return any(name == module or name.startswith(f"{module}.") for module in modules)
