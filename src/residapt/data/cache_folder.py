"""The folder of what is computed once and found again by later runs; importing this module does not import torch."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from residapt.errors import ConfigError

VARIABLE = "RESIDAPT_CACHE"
"""Names another folder."""
SUFFIX = ".rows"
MAGIC = b"residapt rows 1\n"
HEADER = 4096
"""Bytes before the first row: the magic line, then JSON, then blanks."""


@dataclass(frozen=True)
class Entry:
    """One file of the cache."""

    path: Path
    bytes: int
    """On the disk; a file that is not full has holes."""
    used: float
    """When it was last opened, in seconds since 1970."""
    what: str
    """What it was made from."""


def cache_folder() -> Path:
    """The user's cache folder, or that of ``RESIDAPT_CACHE``.

    Example:
        >>> cache_folder().is_absolute()
        True
    """
    if given := os.environ.get(VARIABLE):
        return Path(given).absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "residapt"
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "residapt"


def entries(folder: Path) -> list[Entry]:
    """All files of the cache, the one that was used last first."""
    found = []
    for path in folder.glob(f"*{SUFFIX}"):
        try:
            about = path.stat()
            found.append(Entry(path, about.st_blocks * 512, about.st_mtime, _what(path)))
        except OSError:
            continue  # removed by another process meanwhile
    return sorted(found, key=lambda entry: -entry.used)


def remove(found: Iterable[Entry]) -> int:
    """Remove files of the cache and give their bytes. Processes that have one open can still read it."""
    freed = 0
    for entry in found:
        try:
            entry.path.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(f"'{entry.path}' cannot be removed: {error.strerror}. Allow it, or leave it.") from None
        freed += entry.bytes
    return freed


def room_for(path: Path, limit: float, keep: Collection[Path] = ()) -> float:
    """Bytes that the file at ``path`` may have.

    Others keep half of the limit; beyond that, those that were not used for longest are removed, except ``keep``.
    """
    others = [entry for entry in entries(path.parent) if entry.path != path]
    used = sum(entry.bytes for entry in others)
    for entry in reversed(others):
        if used > limit / 2 and entry.path not in keep:
            used -= remove([entry])
    return max(limit - used, 0.0)


def touch(path: Path) -> None:
    """Note that the file is used now."""
    try:
        os.utime(path)
    except OSError:
        return  # a cache that may only be read is of use as well


def _what(path: Path) -> str:
    """What the header says."""
    with path.open("rb") as file:
        start = file.read(HEADER)
    try:
        manifest = json.loads(start[len(MAGIC) :])["manifest"]
        return str(manifest.get("what") or manifest.get("name") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return "unreadable"
