"""What can be refused before torch is imported: unknown names, places that are not given, missing or in use."""

from __future__ import annotations

import os
from pathlib import Path

from residapt.config import Config
from residapt.errors import ConfigError, DataError
from residapt.methods.names import check_method


def check_settings(config: Config, given: frozenset[str] = frozenset(), out: Path | None = None) -> None:
    """Refuse places that cannot be used and a method that is not known; ``given`` names the data that are objects."""
    check_places(config, given)
    check_method(config.method)
    if out is not None:
        check_output(out)


def check_places(config: Config, given: frozenset[str] = frozenset()) -> None:
    """Refuse folders and files that are missing; ``given`` names the data that are objects instead."""
    for name in ("source", "target"):
        place = getattr(config.data, name)
        if place is None and name not in given and not (name == "source" and config.model.base is not None):
            raise ConfigError(
                f"no {name} is given. Name its folder with -{name[0]}, or data.{name} in a file{_free(name)}."
            )
    for name in ("source", "target", "evaluate"):
        place = None if name in given else getattr(config.data, name)
        if place is not None and not _exists(place):
            raise DataError(f"data.{name}: folder '{place}' does not exist. Check the path.")
    labels = None if "target_labels" in given else config.data.target_labels
    if labels is not None and not _exists(labels):
        raise DataError(
            f"data.target_labels: '{labels}' does not exist. Give a CSV file (path,class) or a folder of class folders."
        )
    weights, base = config.model.weights, config.model.base
    if weights not in (None, "none") and not _exists(weights):
        raise ConfigError(f"model.weights: file '{weights}' does not exist. Check the path, or give none.")
    if base is not None and not _exists(base):
        raise ConfigError(f"model.base: '{base}' does not exist. Give a run directory, or a file of weights.")
    adapters = config.model.adapters
    if adapters not in (None, "none") and not Path(adapters).is_dir():
        raise ConfigError(f"model.adapters: folder '{adapters}' does not exist. Check the path, or give none.")


def _free(name: str) -> str:
    return "; with --base, a network that is trained already, none is needed" if name == "source" else ""


def check_output(path: Path) -> None:
    """Refuse an output folder that is in use or cannot be made, without making it."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        is_run = (path / "config.toml").is_file()
        more = f", or resume it: residapt adapt --resume {path}" if is_run else ": it is not a run of residapt"
        raise ConfigError(f"output '{path}' exists already. Choose another with -o{more}.")
    place = path.absolute()
    while not place.exists():
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise ConfigError(f"output '{path}' cannot be written: '{place}' is not a folder that you may write to.")


def _exists(place: str) -> bool:
    """Whether something is there; patterns of tar files are checked when they are read."""
    try:
        return Path(place).exists() or (place.endswith(".tar") and any(sign in place for sign in "{*"))
    except (OSError, ValueError):  # a name too long, or with a NUL
        return False
