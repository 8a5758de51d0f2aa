"""A run without source images: what the base's file says takes their place.

Where code needs labelled images of the first domain, for a held-out part or for outputs to compare with, the target
images with the base's own predictions stand in. No loss reads those labels, and scores that would mean something only
for real source images are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from residapt.config import Config
from residapt.data.sources import OpenImages, OpenLabelled
from residapt.errors import ConfigError
from residapt.evaluate.predict import evaluating, predict_logits
from residapt.evaluate.scores import SCORES
from residapt.methods.names import SOURCE_FREE
from residapt.run.networks import base_metadata, logits_in
from residapt.settings import merged
from residapt.storage.metadata import AdapterMetadata

NEED_SOURCE = ("source_accuracy", "dev", "devn", "mmd_outputs")
"""Scores that compare with labelled source images."""
SCORED = tuple(name for name in SCORES if name not in NEED_SOURCE)


def source_free_config(config: Config) -> Config:
    """The configuration of a run without source images: a frozen base, and a method that reads the target alone."""
    set_here = config.model_dump(exclude_unset=True)
    method, freeze = set_here.get("method", SOURCE_FREE[0]), set_here.get("freeze", "base")
    if method not in SOURCE_FREE:
        raise ConfigError(
            f"method '{method}' reads source images, but none are given. Name their folder with -s, or take "
            f"{' or '.join(SOURCE_FREE)}."
        )
    if freeze != "base":
        raise ConfigError(f"freeze = {freeze!r}: without source images the base stays as it is. Leave freeze out.")
    if config.select in NEED_SOURCE:
        raise ConfigError(f"select = '{config.select}' needs source images, but none are given. Use infomax or last.")
    return Config.parse(merged(set_here, {"method": method, "freeze": "base"}))


def with_frequencies(config: Config, said: AdapterMetadata | None) -> tuple[Config, tuple[str, ...]]:
    """The source's class frequencies as the base's file has them, where they are what is assumed."""
    if config.method_config.prior.kind != "as-is":
        return config, ()
    if said is None or said.frequencies is None:
        note = "the base does not say how frequent its classes are: equally frequent ones are assumed (prior.start)."
        return config, (note,)
    return config.with_group("prior", kind="given", start=said.frequencies), ()


def class_names(config: Config, given: Sequence[str] | None, model: nn.Module | None) -> tuple[str, ...]:
    """The classes: those given, or those in the base's file."""
    if given is not None:
        return tuple(given)
    said = base_metadata(config)
    if said is not None:
        return said.classes
    if model is not None:
        raise ConfigError("adapt: without source images, name the network's classes: classes=(...), in their order.")
    raise ConfigError(
        f"base '{config.model.base}' does not say what its classes are, since residapt did not write it. Give source "
        "images, or in Python classes=(...)."
    )


def stand_in(target: OpenImages, network: nn.Module, classes: tuple[str, ...], device: torch.device) -> OpenLabelled:
    """The target images with the base's own predictions."""
    network.to(device)
    with evaluating(network):
        logits = predict_logits(lambda x: logits_in(network(x)), target.plain, batch_size=64, device=device)
    return OpenLabelled(target, logits.argmax(1), classes)


def is_source_free(config: Config, source: Any, model: nn.Module | None) -> bool:
    """Whether there is a trained network, and no source."""
    return source is None and (model is not None or config.model.base is not None)


def find_evaluation(given: Any, classes: tuple[str, ...]) -> Any:
    """A folder of images to score, for the classes of the base."""
    from residapt.data.labelled_files import find_labelled

    return find_labelled(Path(given), classes) if isinstance(given, str) else given
