"""One row of somebody's data set: where its image and its label are, and the image as a tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from residapt.data.decode import fit_image
from residapt.data.folders import InputForm
from residapt.errors import DataError

IMAGE_KEYS = ("image", "pixel_values", "img", "images")
LABEL_KEYS = ("label", "labels", "target", "fine_label")


def image_of(row: Any) -> Any:
    """The image of a row: under one of the usual keys, the first of a tuple, or the row itself."""
    if isinstance(row, Mapping):
        return row[_key(row, IMAGE_KEYS, "image")]
    return row[0] if isinstance(row, (tuple, list)) and len(row) else row


def label_of(row: Any) -> Any:
    """The label of a row; only ever asked of rows of a labelled set."""
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


def tensor_of(image: Any, form: InputForm) -> Tensor:
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
    """One batch; images of unlike shapes are refused by the place of the first that differs."""
    for place, image in enumerate(images):
        if image.shape != images[0].shape or image.dtype != images[0].dtype:
            raise DataError(
                f"image {first + place} of the data is {image.dtype} {tuple(image.shape)}, another is "
                f"{images[0].dtype} {tuple(images[0].shape)}. Bring all images to one size in the data set's transform."
            )
    return torch.stack(images)
