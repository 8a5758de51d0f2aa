"""The folders of a run, scanned once: before any network is built, on the command line before torch is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from residapt.config import DataConfig
from residapt.data.folders import UnlabelledFiles
from residapt.data.labelled_files import check_labels, find_labelled, find_source, find_target


class Scanned(NamedTuple):
    """The data of a run: folders and lists as what was found in them, objects as they were given."""

    source: Any
    target: Any
    found: UnlabelledFiles | None
    """The images of the target, where it is a place on disk."""
    evaluate: Any
    labelled: Any


def scan(source: Any, target: Any, labelled: Any, evaluate: Any) -> Scanned:
    """Find the images of everything that is a place on disk, and refuse what cannot be meant."""
    found = find_target(Path(target)) if isinstance(target, str) else None
    if isinstance(source, str):
        source = find_source(Path(source))
        check_labels(labelled, target, source.classes)
        if isinstance(evaluate, str):
            evaluate = find_labelled(Path(evaluate), source.classes)
    return Scanned(source, target, found, evaluate, labelled)


def scan_places(data: DataConfig) -> Scanned:
    """The same where all data are places that a configuration names."""
    places = (data.source, data.target, data.target_labels, data.evaluate)
    return scan(*(place and str(Path(place).absolute()) for place in places))
