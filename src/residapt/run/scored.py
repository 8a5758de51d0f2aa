"""Which images a result is judged by: never those whose labels were trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from residapt.data.labelled_target import same_images
from residapt.data.same_files import also_among
from residapt.data.sources import OpenImages, OpenLabelled
from residapt.data.split import part_of
from residapt.errors import DataError
from residapt.evaluate.predict import Evaluation, Protocol

Notes = tuple[str, ...]


def evaluation_set(
    given: Any, scored: OpenLabelled | None, *, source: OpenLabelled, target: OpenImages, few: OpenLabelled | None
) -> tuple[Evaluation | None, Notes]:
    """The set to score, with its stamp: are its images among those that training sees?"""
    if scored is None:
        return None, ()
    kept, notes = _without_few(scored, few)
    seen = same_images(scored.images, target)[kept]
    learned = also_among(scored.images.files, source.images.files)
    if learned:
        notes += (
            f"{learned} of the {len(scored.images)} images to score are labelled source images as well: "
            "their accuracy says little.",
        )
    protocol: Protocol = "transductive" if bool(seen.any()) or learned else "held-out"
    data = scored.plain if len(kept) == len(scored.images) else part_of(scored.plain, kept)
    return Evaluation(_name(given), data, protocol=protocol), notes


def _without_few(scored: OpenLabelled, few: OpenLabelled | None) -> tuple[Tensor, Notes]:
    everything = torch.arange(len(scored.images))
    if few is None:
        return everything, ()
    trained = same_images(scored.images, few.images)
    count = int(trained.sum())
    if count == len(everything):
        raise DataError(
            f"all {count} images to score are among the labelled target images that are trained on. "
            "Keep some of them out of target_labels, or leave evaluate out."
        )
    if not count:
        return everything, ()
    note = (
        f"{count} of the {len(everything)} images to score are among the labelled target images that are trained on: "
        "they are left out of the score."
    )
    return everything[~trained], (note,)


def unlabelled(target: OpenImages, few: OpenLabelled | None) -> tuple[Tensor, Notes]:
    """Which target images the scores that need no labels may look at: those that no label was given for."""
    everything = torch.arange(len(target))
    if few is None:
        return everything, ()
    rest = everything[~same_images(target, few.images)]
    if len(rest):
        return rest, ()
    note = (
        f"all {len(everything)} target images have labels, so that none is left to judge the result by: the scores "
        "that need no labels are of images that were trained on, and say little. Give more unlabelled images."
    )
    return everything, (note,)


def _name(data: Any) -> str:
    """What to call a scored set; two parts of a path, because many folders are called "images"."""
    return "/".join(Path(data).absolute().parts[-2:]) if isinstance(data, (str, Path)) else "labelled images"
