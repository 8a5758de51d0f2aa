"""What can be refused at once: names, places and folders, before images are decoded or networks built."""

from __future__ import annotations

import os
from pathlib import Path

from residapt.config import Config
from residapt.data.folders import scan_labelled, scan_source, scan_target
from residapt.data.labelled_target import check_few
from residapt.errors import ConfigError
from residapt.evaluate.scores import SCORES
from residapt.methods import check_method
from residapt.models.trust import refuse_code
from residapt.run.request import Request
from residapt.train.tensorboard import check_tensorboard


def check_request(request: Request, config: Config) -> None:
    """Refuse unknown names, missing parts and places that cannot be used."""
    check_method(config.method)
    if request.model is None:
        where = f"run '{request.out}'" if request.resume else "the configuration or base run"
        refuse_code(config.model.spec, where=where, trust_code=request.trust_code)
    if config.select != "last" and config.select not in SCORES:
        raise ConfigError(f"--select {config.select!r} is no score. Use last, or one of: {', '.join(SCORES)}.")
    for name in ("source", "target"):
        if getattr(request, name) is None:
            raise ConfigError(f"no {name} is given. Name its folder with -{name[0]}, or data.{name} in a file.")
    if request.tensorboard:
        check_tensorboard()
        if request.out is None:
            raise ConfigError("tensorboard=True needs an output folder for its event files: give out=.")
    if request.out is not None and not request.resume:
        check_output(request.out)


def check_output(path: Path) -> None:
    """Refuse an output folder that is in use or cannot be made, without making it."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ConfigError(
            f"output '{path}' exists already. Choose another with -o, or go on with: residapt adapt --resume {path}"
        )
    place = path.absolute()
    while not place.exists():
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise ConfigError(f"output '{path}' cannot be written: '{place}' is no folder that you may write to.")


def classes_of_folders(request: Request) -> tuple[str, ...] | None:
    """The class names of a source folder, once all folders have been looked into; None for other data."""
    if isinstance(request.target, (str, Path)):
        scan_target(Path(request.target))
    if not isinstance(request.source, (str, Path)):
        return None
    classes = scan_source(Path(request.source)).classes
    check_few(request.target_labels, request.target, classes)
    if isinstance(request.evaluate, (str, Path)):
        scan_labelled(Path(request.evaluate), classes)
    return classes
