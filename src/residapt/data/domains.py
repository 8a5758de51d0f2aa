"""The two domains as training sees them. The target has images and nothing else: labels have no field to be in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from residapt.data.config import Balance
from residapt.errors import DataError

BatchTransform = Callable[[Tensor, torch.Generator], Tensor]

_PART = 256
"""Images that are checked at a time."""


class Images(Protocol):
    """Images that can be fetched by index as one float batch."""

    def __len__(self) -> int:
        """How many there are."""
        ...

    def fetch(self, index: Tensor, generator: torch.Generator) -> Tensor:
        """The images at ``index``; ``generator`` drives augmentation and nothing else."""
        ...


class TensorImages:
    """Images held in memory, turned into floats (and augmented) a batch at a time."""

    def __init__(self, images: Tensor, transform: BatchTransform | None = None, *, name: str = "images") -> None:
        if len(images) == 0:
            raise DataError(f"{name}: there are no images (shape {tuple(images.shape)}); give at least one.")
        where = _first_not_finite(images) if images.is_floating_point() else None
        if where is not None:
            raise DataError(f"{name}: image {where} contains NaN or infinity. Clean the data before adapting to it.")
        self.images, self.transform = images, transform

    def __len__(self) -> int:
        return len(self.images)

    def fetch(self, index: Tensor, generator: torch.Generator) -> Tensor:
        """A batch of floats."""
        batch = self.images[index]
        return batch.float() if self.transform is None else self.transform(batch, generator)


def _first_not_finite(images: Tensor) -> int | None:
    """The first image with NaN or infinity, found part by part: a mask of all images would be a copy of them."""
    for start, part in zip(range(0, len(images), _PART), torch.split(images, _PART), strict=True):
        finite = torch.isfinite(part.flatten(1)).all(1)
        if not bool(finite.all()):
            return start + int((~finite).nonzero()[0])
    return None


class JoinedImages:
    """The images of one set, then those of another."""

    def __init__(self, first: Images, second: Images) -> None:
        self.first, self.second = first, second

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    def fetch(self, index: Tensor, generator: torch.Generator) -> Tensor:
        """The images at ``index``, in that order."""
        border = len(self.first)
        parts = ((self.first, index < border, 0), (self.second, index >= border, border))
        places = [inside.nonzero().flatten() for _, inside, _ in parts]
        pieces = [
            images.fetch(index[inside] - shift, generator) for images, inside, shift in parts if bool(inside.any())
        ]
        return torch.cat(pieces)[torch.cat(places).argsort()]


def parts_of(images: Images) -> list[Images]:
    """The images that others are made of, by joining or selecting them."""
    inner = [getattr(images, name) for name in ("images", "first", "second") if hasattr(images, name)]
    found = [part for one in inner if hasattr(one, "fetch") for part in parts_of(one)]
    return found or [images]


@dataclass(frozen=True)
class Labelled:
    """Images with class indices."""

    images: Images
    labels: Tensor

    def __post_init__(self) -> None:
        if len(self.images) == 0:
            raise DataError("a labelled set has no images; give at least one for each class.")
        if len(self.images) != len(self.labels):
            raise DataError(f"{len(self.images)} images but {len(self.labels)} labels: they must be one to one.")
        if self.labels.is_floating_point() or self.labels.ndim != 1:
            raise DataError(
                f"labels must be a vector of class indices, got {self.labels.dtype} {tuple(self.labels.shape)}."
            )
        object.__setattr__(self, "labels", self.labels.long())

    def check_classes(self, num_classes: int, name: str) -> None:
        """Reject class indices that the network has no output for."""
        low, high = int(self.labels.min()), int(self.labels.max())
        if low < 0 or high >= num_classes:
            bad = low if low < 0 else high
            where = int((self.labels == bad).nonzero()[0])
            raise DataError(
                f"{name}: label {bad} of image {where} is out of range: the network has {num_classes} outputs, so "
                f"labels go from 0 to {num_classes - 1}."
            )


@dataclass(frozen=True)
class DomainPair:
    """A labelled source, an unlabelled target and, in the supervised case, labelled target images."""

    source: Labelled
    target: Images
    few: Labelled | None = None
    balance: Balance = "as-is"
    """How the batches of both labelled sets are drawn."""
    views: Images | None = None
    """What second views of target images are drawn from, where not from ``target`` once more."""
    workers: int | None = None
    """Threads that prepare batches ahead; None takes as many as are of use."""

    def __post_init__(self) -> None:
        if isinstance(self.target, Labelled):
            # Whoever passes a labelled target wants to score it later; training gets the images alone.
            object.__setattr__(self, "target", self.target.images)
        if not hasattr(self.target, "fetch"):
            raise DataError(
                f"the target must be images without labels, got {type(self.target).__name__}. "
                "Give TensorImages, or another object with __len__ and fetch(index, generator)."
            )
