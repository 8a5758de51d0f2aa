"""A labelled set of equally sized images in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from residapt.errors import DataError

DIGITS = tuple("0123456789")


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images, their labels, and where they came from."""

    images: Tensor
    """uint8, shape (n, channels, height, width)."""
    labels: Tensor
    """int64, shape (n,), each an index into ``classes``."""
    name: str
    """What to call the set in messages and reports, for instance ``svhn-train``."""
    official: bool = False
    """Whether the files read were, byte for byte, the published ones."""
    checksum: str = ""
    """MD5 of the file read; of several files, their MD5s joined by ``+``."""
    classes: tuple[str, ...] = DIGITS

    def __post_init__(self) -> None:
        images, labels = self.images, self.labels
        if images.dtype != torch.uint8 or images.ndim != 4:
            raise DataError(
                f"image set {self.name!r}: images must be uint8 of shape (n, c, h, w), got {images.dtype} "
                f"of shape {tuple(images.shape)}."
            )
        if labels.dtype != torch.int64 or labels.shape != images.shape[:1]:
            raise DataError(
                f"image set {self.name!r}: {len(images)} images need int64 labels of shape ({len(images)},), "
                f"got {labels.dtype} of shape {tuple(labels.shape)}."
            )
        if len(labels) and not (int(labels.min()) >= 0 and int(labels.max()) < len(self.classes)):
            raise DataError(
                f"image set {self.name!r}: labels reach from {int(labels.min())} to {int(labels.max())}, "
                f"but there are {len(self.classes)} classes. Number the classes from 0."
            )

    def __len__(self) -> int:
        return len(self.images)

    def subset(self, indices: Tensor | Sequence[int], name: str | None = None) -> ImageSet:
        """The images at ``indices``, in that order; no longer the official set."""
        chosen = torch.as_tensor(indices, dtype=torch.int64)
        return replace(
            self,
            images=self.images[chosen],
            labels=self.labels[chosen],
            name=name or f"{self.name}[{len(chosen)}]",
            official=False,
        )
