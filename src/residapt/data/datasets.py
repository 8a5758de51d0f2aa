"""Map-style data sets, loaders and streams as images; labels are read only from labelled data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, get_start_method
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

from residapt.data.decode import fit_image
from residapt.data.decoded import CacheConfig
from residapt.data.domains import BatchTransform
from residapt.data.spool import Spool
from residapt.errors import DataError
from residapt.models.input_spec import InputSpec

IMAGE_KEYS = ("image", "pixel_values", "img", "images")
LABEL_KEYS = ("label", "labels", "target", "fine_label")

LIMIT = 4e9
"""Bytes of float tensors of a stream that are kept in memory."""


class MapStyle(Protocol):
    """A data set with a length and rows by number."""

    def __len__(self) -> int:
        """How many rows there are."""
        ...

    def __getitem__(self, index: Any, /) -> Any:
        """A row."""
        ...


class RowFetcher:
    """Rows of a map-style data set as tensors, fetched here or by worker processes.

    Random transforms of the data set draw from torch's generator, which is seeded for each row, so that a run can be
    repeated and resumed, and so that it makes no difference who fetches a row.
    """

    def __init__(self, rows: MapStyle, form: InputSpec, workers: int = 0) -> None:
        self.rows, self.form, self.workers = rows, form, workers
        self._pool: ProcessPoolExecutor | None = None
        if workers:
            # As torch's DataLoader starts them; now, before there are other threads.
            self._pool = ProcessPoolExecutor(workers, mp_context=get_context(), initializer=_adopt, initargs=(self,))
            self._pool.submit(len, rows).result() if get_start_method() == "fork" else None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None}

    def fetch(self, index: Sequence[int], seed: int) -> Tensor:
        """The images of rows as one tensor."""
        if self._pool is None:
            with torch.random.fork_rng(devices=[]):
                return self.fetch_here(index, seed)
        return torch.from_numpy(self._pool.submit(_fetch_adopted, index, seed).result())

    def fetch_here(self, index: Sequence[int], seed: int) -> Tensor:
        """The same, in this process."""
        images = []
        for place, number in enumerate(index):
            torch.default_generator.manual_seed((seed + place) % 2**63)
            images.append(tensor_of(image_of(self.rows[number]), self.form))
        return stack(images, index[0])


_adopted: RowFetcher | None = None


def _adopt(fetcher: RowFetcher) -> None:
    """Of a worker process: the rows that it fetches."""
    global _adopted
    _adopted = fetcher
    torch.set_num_threads(1)


def _fetch_adopted(index: Sequence[int], seed: int) -> NDArray[Any]:
    assert _adopted is not None
    found: NDArray[Any] = _adopted.fetch_here(index, seed).numpy()
    return found


class DatasetImages:
    """The images of a map-style data set."""

    def __init__(self, rows: RowFetcher, transform: BatchTransform) -> None:
        self.rows, self.transform = rows, transform
        self.prefetch = self.threads = rows.workers > 0
        """Rows that are fetched in this process draw from the generator that training draws from."""

    def __len__(self) -> int:
        return len(self.rows.rows)

    def fetch(self, index: Tensor, generator: torch.Generator) -> Tensor:
        """A batch of floats; float tensors are taken as they are."""
        seed = int(torch.randint(2**62, (1,), generator=generator))
        batch = self.rows.fetch(index.tolist(), seed)
        return batch if batch.is_floating_point() else self.transform(batch, generator)

    def gives_floats(self) -> bool:
        """Whether the data set brings its images into the network's form itself."""
        return self.rows.fetch([0], 0).is_floating_point()


def read_labels(rows: MapStyle) -> Tensor:
    """All labels of a map-style data set, without decoding images where it keeps them apart."""
    if isinstance(rows, TensorDataset) and len(rows.tensors) > 1:
        return as_labels(rows.tensors[1])
    if isinstance(rows, Subset):
        return read_labels(rows.dataset)[torch.as_tensor(list(rows.indices), dtype=torch.long)]  # type: ignore[arg-type]
    column = next((key for key in LABEL_KEYS if key in getattr(rows, "column_names", ())), None)
    if column is not None:
        return as_labels(rows[column])
    if getattr(rows, "target_transform", None) is None:
        kept = next((getattr(rows, name) for name in ("targets", "labels") if hasattr(rows, name)), None)
        if kept is not None and len(kept) == len(rows):
            return as_labels(kept)
    return as_labels([label_of(rows[index]) for index in range(len(rows))])


def as_labels(values: Any) -> Tensor:
    """Class numbers as a vector of int64."""
    labels = values if isinstance(values, Tensor) else torch.as_tensor(np.asarray([int(value) for value in values]))
    whole = labels.is_floating_point() and bool((labels == labels.round()).all())
    if labels.ndim != 1 or (labels.is_floating_point() and not whole) or labels.dtype == torch.bool:
        raise DataError(f"labels must be a vector of class numbers, got {labels.dtype} {tuple(labels.shape)}.")
    return labels.cpu().long()


def class_names(rows: object, labels: Tensor) -> tuple[str, ...]:
    """The names that a data set knows (torchvision, Hugging Face), or the class numbers."""
    count = int(labels.max()) + 1 if len(labels) else 0
    while isinstance(rows, Subset):
        rows = rows.dataset
    features = getattr(rows, "features", None)
    columns = features if isinstance(features, dict) else {}
    names = next((getattr(columns[key], "names", None) for key in LABEL_KEYS if key in columns), None)
    names = names or getattr(rows, "classes", None)
    if isinstance(names, Sequence) and len(names) >= count and len(set(names)) == len(names):
        return tuple(map(str, names))
    return tuple(map(str, range(count)))


def unwrap(
    data: Any, form: InputSpec, cache: CacheConfig, *, what: str, labelled: bool = False
) -> tuple[MapStyle, int]:
    """The map-style data set inside a loader with its workers; streams are read once, to the end."""
    if isinstance(data, DataLoader):
        if not isinstance(data.dataset, IterableDataset):
            return _checked(data.dataset, what), data.num_workers
        return read_stream((row for batch in data for row in _apart(batch)), form, cache, what, labelled), 0
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return _checked(data, what), 0
    if hasattr(data, "__iter__"):
        return read_stream(data, form, cache, what, labelled), 0
    raise DataError(
        f"{what} is of type {type(data).__name__}. Give a folder, a DataLoader, a data set with rows by number, "
        "or tensors."
    )


def _checked(rows: Any, what: str) -> MapStyle:
    if not len(rows):
        raise DataError(f"{what} is empty: the {type(rows).__name__} has no rows.")
    known: MapStyle = rows
    return known


def read_stream(stream: Iterable[Any], form: InputSpec, cache: CacheConfig, what: str, labelled: bool) -> MapStyle:
    """All rows of a stream: images as pixels in a temporary file, float tensors in memory."""
    spool, floats, labels = Spool(cache, what), [], []
    for row in stream:
        image = tensor_of(image_of(row), form)
        if labelled:
            labels.append(int(label_of(row)))
        if image.dtype == torch.uint8:
            spool.add(image)
            continue
        floats.append(image)
        if len(floats) * image.nbytes > LIMIT:
            raise DataError(
                f"{what} is a stream of more than {LIMIT / 1e9:g} GB of float tensors. Give a data set with rows by "
                "number, or a stream of images, which are kept on disk at the network's size."
            )
    if floats and spool.count:
        raise DataError(f"{what} is a stream of images and of float tensors. Give one of the two.")
    if not floats and not spool.count:
        raise DataError(f"{what} is empty: the {type(stream).__name__} has no rows.")
    images = stack(floats, 0) if floats else spool.images()
    rows = Streamed(images, torch.tensor(labels)) if labelled else Streamed(images)
    rows.features = getattr(stream, "features", None)
    return rows


class Streamed(TensorDataset):
    """What a stream held."""

    features: Any = None
    """Columns of a Hugging Face stream, which know the names of classes."""


def _apart(batch: Any) -> list[Any]:
    """The rows of a loader's batch."""
    images = image_of(batch)
    try:
        labels = label_of(batch)
    except DataError:
        return list(images)
    return list(zip(images, labels, strict=True))


def image_of(row: Any) -> Any:
    """The image of a row: under one of the usual keys, the first of a tuple, or the row itself."""
    if isinstance(row, Mapping):
        return row[_key(row, IMAGE_KEYS, "image")]
    return row[0] if isinstance(row, (tuple, list)) and len(row) else row


def label_of(row: Any) -> Any:
    """The label of a row; only called for rows of a labelled set."""
    if isinstance(row, Mapping):
        return row[_key(row, LABEL_KEYS, "label")]
    if isinstance(row, (tuple, list)) and len(row) > 1:
        return row[1]
    raise DataError(
        f"a row of the labelled data is {type(row).__name__} without a label. Rows are (image, label), or have "
        f"the keys '{IMAGE_KEYS[0]}' and '{LABEL_KEYS[0]}'."
    )


def _key(row: Mapping[str, Any], known: tuple[str, ...], what: str) -> str:
    found = next((key for key in known if key in row), None)
    if found is None:
        raise DataError(
            f"a row of the data has the keys {', '.join(map(str, row))}; its {what} must be under one of "
            f"{', '.join(known)}."
        )
    return found


def tensor_of(image: Any, form: InputSpec) -> Tensor:
    """A tensor as it is; an image as uint8 pixels of the network's size; an array as whichever of the two it is."""
    if isinstance(image, Tensor):
        return image
    if isinstance(image, np.ndarray) and image.dtype == np.uint8 and image.ndim in (2, 3):
        image = Image.fromarray(image)
    if isinstance(image, Image.Image):
        return fit_image(image, size=form.size, channels=form.channels, interpolation=form.interpolation)
    if isinstance(image, (np.ndarray, list)):
        return torch.as_tensor(np.asarray(image))
    raise DataError(f"an image of the data is of type {type(image).__name__}. Give tensors, arrays or PIL images.")


def stack(images: list[Tensor], first: int) -> Tensor:
    """One batch; images of unlike shapes are rejected by the place of the first that differs."""
    for place, image in enumerate(images):
        if image.shape != images[0].shape or image.dtype != images[0].dtype:
            raise DataError(
                f"image {first + place} of the data is {image.dtype} {tuple(image.shape)}, another is "
                f"{images[0].dtype} {tuple(images[0].shape)}. Bring all images to one size in the data set's transform."
            )
    return torch.stack(images)
