"""Folders of adapters: one for each domain, named after it."""

from __future__ import annotations

from pathlib import Path

from residapt.errors import ConfigError
from residapt.storage.hub import CONFIG
from residapt.storage.run_directory import RunDirectory


def adapters_in(folder: Path) -> dict[str, Path]:
    """The adapters in a folder by name, and those of the runs in it; a folder without any is refused."""
    if not folder.is_dir():
        raise ConfigError(f"adapters: folder '{folder}' does not exist. Check the path.")
    found = {}
    for path in sorted(folder.iterdir()):
        own = next((place for place in (path, RunDirectory(path).adapter) if (place / CONFIG).is_file()), None)
        if own is not None:
            found[path.name] = own
    if not found:
        raise ConfigError(
            f"adapters: '{folder}' has no folder with an adapter ({CONFIG}) or a run with one. Name the folder around "
            "the adapters."
        )
    return found
