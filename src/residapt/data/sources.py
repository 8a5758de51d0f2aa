"""Whatever a user gives as source, target or labelled folder, opened as images that training can fetch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from residapt.data.datasets import (
    IMAGE_KEYS,
    DatasetImages,
    RowFetcher,
    as_labels,
    class_names,
    read_labels,
    unwrap,
)
from residapt.data.decoded import CHECKED, CacheConfig, DecodedImages, Encoded, Files, Pixels
from residapt.data.domains import Images, Labelled, TensorImages
from residapt.data.folders import LabelledFiles, UnlabelledFiles
from residapt.data.hub_rows import encoded_rows
from residapt.data.labelled_files import find_labelled, find_source, find_target
from residapt.data.preprocess import Normalise, augment
from residapt.data.split import Part
from residapt.errors import DataError
from residapt.models.input_spec import InputSpec


@dataclass(frozen=True)
class Reading:
    """How images are read."""

    form: InputSpec
    augment: bool = True
    cache: CacheConfig = field(default_factory=CacheConfig)
    """Where decoded images are kept."""
    on_image: Callable[[], None] = lambda: None

    def transforms(self) -> tuple[Normalise, Normalise]:
        """For training, and for predictions."""
        plain = Normalise(self.form.mean, self.form.std)
        return replace(plain, augment=augment if self.augment else None), plain


@dataclass(frozen=True, eq=False)
class OpenImages:
    """The images of one domain, without labels."""

    train: Images
    """Augmented."""
    plain: Images
    """As the network sees them when it is used."""
    names: Sequence[str] = ()
    """A name for each image; none when they have only numbers."""
    files: tuple[Path, ...] = ()
    """Where they are, for images on disk."""
    raw: bool = True
    """Whether they were given as pixels; False for float tensors, whose normalisation only their owner knows."""
    notes: tuple[str, ...] = ()
    pixels: Pixels | None = None
    """What decodes them, where they are decoded on the way."""

    def __len__(self) -> int:
        return len(self.plain)

    def name(self, index: int) -> str:
        """What to call an image."""
        return self.names[index] if self.names else f"image {index}"


@dataclass(frozen=True, eq=False)
class OpenLabelled:
    """Labelled images."""

    images: OpenImages
    labels: Tensor
    classes: tuple[str, ...]

    @property
    def plain(self) -> Labelled:
        """Not augmented."""
        return Labelled(self.images.plain, self.labels)


def open_source(data: Any, reading: Reading, classes: Sequence[str] | None = None) -> OpenLabelled:
    """The labelled source: a folder of class folders, a CSV file, (images, labels), a DataLoader or a data set."""
    if isinstance(data, (str, Path)):
        data = find_source(Path(data))
    if isinstance(data, LabelledFiles):
        return _open_folders(data, reading, "source")
    return _open_labelled(data, reading, "source", classes)


def open_target(data: Any, reading: Reading, found: UnlabelledFiles | None = None) -> OpenImages:
    """The unlabelled target: a folder, a list, tar files, images, a DataLoader or a data set.

    Labels beside the images are not read. ``found`` is what a path means, where it was scanned already.
    """
    if isinstance(data, (str, Path)):
        found = found or find_target(Path(data))
        return open_encoded(found.shards or Files(found.paths, found.root), reading, "target")[0]
    if isinstance(data, (tuple, list)) and _is_pair(data):
        data = data[0]
    return _open_images(data, reading, "target")


def open_evaluation(data: Any, reading: Reading, classes: Sequence[str], what: str = "evaluate") -> OpenLabelled:
    """A labelled set beside the source, for instance one that is only scored; its classes are among the source's."""
    if isinstance(data, (str, Path)):
        data = find_labelled(Path(data), classes)
    if isinstance(data, LabelledFiles):
        return _open_folders(data, reading, what)
    opened = _open_labelled(data, reading, what, None)
    opened.plain.check_classes(len(classes), what)
    return replace(opened, classes=tuple(classes))


def _open_folders(found: LabelledFiles, reading: Reading, what: str) -> OpenLabelled:
    encoded = found.shards or Files(found.paths, found.root)
    images, kept = open_encoded(encoded, reading, what, found.labels, whole=what != "source")
    labels = found.labels[kept]
    if what == "source":
        gone = sorted(set(found.labels.tolist()) - set(labels.tolist()))
        if gone:
            name = found.root / found.classes[gone[0]]
            raise DataError(
                f"class folder '{name}' has no image that can be read. Repair its images, or remove the folder."
            )
    return OpenLabelled(replace(images, notes=(*found.notes, *images.notes)), labels, found.classes)


def open_files(
    paths: Sequence[Path], root: Path, reading: Reading, what: str, labels: Tensor | None = None, *, whole: bool = False
) -> tuple[OpenImages, Tensor]:
    """Image files, named from ``root``, and which of the given ones they are.

    Of a small set, and of one that is read as a ``whole``, unreadable files are left out. Of a large one they are
    found on the way, and others (with the same label) are taken instead.
    """
    return open_encoded(Files(tuple(paths), root), reading, what, labels, whole=whole)


def open_encoded(
    encoded: Encoded, reading: Reading, what: str, labels: Tensor | None = None, *, whole: bool = False
) -> tuple[OpenImages, Tensor]:
    """Images that are decoded when they are needed; see :func:`open_files`."""
    pixels = Pixels(encoded, reading.form, what=what, cache=reading.cache, groups=labels)
    pixels.check(reading.on_image, whole=whole)
    train, plain = (DecodedImages(pixels, transform) for transform in reading.transforms())
    names, files = encoded.names(), encoded.files
    everything = torch.arange(len(encoded))
    if (len(encoded) > CHECKED and not whole) or not pixels.broken:
        return OpenImages(train, plain, names, files, pixels=pixels), everything
    kept = torch.tensor([index not in pixels.broken for index in range(len(encoded))]).nonzero().flatten()
    chosen = kept.tolist()
    return OpenImages(
        Part(train, kept),
        Part(plain, kept),
        tuple(names[i] for i in chosen) if names else (),
        tuple(files[i] for i in chosen) if files else (),
        notes=pixels.left_out(),
        pixels=pixels,
    ), kept


def _open_labelled(data: Any, reading: Reading, what: str, classes: Sequence[str] | None) -> OpenLabelled:
    if isinstance(data, (tuple, list)) and _is_pair(data):
        rows: Any = None
        labels = as_labels(torch.as_tensor(data[1]))
        images = _open_images(data[0], reading, what)
    else:
        if isinstance(data, (Tensor, np.ndarray)):
            raise DataError(f"{what} is a tensor without labels. Give (images, labels).")
        rows, workers = unwrap(data, reading.form, reading.cache, what=what, labelled=True)
        images, kept = _open_rows(rows, reading, workers, what, labelled=True)
        labels = read_labels(rows)[kept]
    names = tuple(classes) if classes is not None else class_names(data if rows is None else rows, labels)
    Labelled(images.plain, labels).check_classes(len(names), what)
    if what == "source" and len(set(labels.tolist())) < 2:
        raise DataError(f"source has 1 class only (label {int(labels[0])}); there is nothing to tell apart.")
    return OpenLabelled(images, labels, names)


def _open_images(data: Any, reading: Reading, what: str) -> OpenImages:
    if isinstance(data, np.ndarray):
        data = torch.from_numpy(data)
    if isinstance(data, Tensor):
        return _open_tensor(data, reading, what)
    rows, workers = unwrap(data, reading.form, reading.cache, what=what)
    return _open_rows(rows, reading, workers, what)[0]


def _open_tensor(images: Tensor, reading: Reading, what: str) -> OpenImages:
    if images.is_floating_point():
        view = TensorImages(images, name=what)
        return OpenImages(view, view, raw=False)
    if images.dtype != torch.uint8 or images.ndim != 4:
        raise DataError(
            f"{what}: images are {images.dtype} {tuple(images.shape)}. Give float tensors as the network wants them, "
            "or uint8 of shape (n, channels, height, width)."
        )
    train, plain = reading.transforms()
    return OpenImages(TensorImages(images, train, name=what), TensorImages(images, plain, name=what))


def _open_rows(
    rows: Any, reading: Reading, workers: int, what: str, *, labelled: bool = False
) -> tuple[OpenImages, Tensor]:
    """Rows of a data set as images, and which of them can be read."""
    everything = torch.arange(len(rows))
    if isinstance(rows, TensorDataset):  # used where they are, without a loop over rows
        return _open_tensor(rows.tensors[0], reading, what), everything
    if (encoded := encoded_rows(rows, IMAGE_KEYS)) is not None:
        return open_encoded(encoded, reading, what, read_labels(rows) if labelled else None)
    fetcher = RowFetcher(rows, reading.form, workers)
    train, plain = (DatasetImages(fetcher, transform) for transform in reading.transforms())
    return OpenImages(train, plain, raw=not train.gives_floats()), everything


def _is_pair(data: Sequence[Any]) -> bool:
    return len(data) == 2 and all(isinstance(part, (Tensor, np.ndarray)) for part in data)
